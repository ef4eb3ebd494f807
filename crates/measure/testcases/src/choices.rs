//! Choices that several testcases have.

use knee_run::parameter::Choice;

pub(crate) const OWN_FILE: Choice = Choice::new("file", "own", "a file for each task");
pub(crate) const SAME_FILE: Choice =
    Choice::new("file", "same", "one file for all tasks; each task opens the file itself");
pub(crate) const SAME_FILE_OWN_PAGE: Choice = Choice::new(
    "file",
    "same-own-page",
    "one file for all tasks; each task uses its own page of it",
);

pub(crate) const SAME_DIRECTORY: Choice = Choice::new(
    "path",
    "same-directory",
    "one directory for all tasks; each task uses its own name in it",
);
pub(crate) const OWN_DIRECTORY: Choice =
    Choice::new("path", "own-directory", "a directory for each task");
pub(crate) const SAME_NAME: Choice = Choice::new("path", "same-file", "one file for all tasks");

pub(crate) const SAME_MUTEX: Choice =
    Choice::new("mutex", "same", "one mutex for all tasks, even if the tasks are processes");
pub(crate) const PROCESS_MUTEX: Choice =
    Choice::new("mutex", "process", "one mutex per process, as in will-it-scale");
pub(crate) const OWN_MUTEX: Choice = Choice::new("mutex", "own", "a mutex for each task");

pub(crate) const SMALL_PAGES: Choice =
    Choice::new("pages", "small", "pages of 4 KiB only, so that every count is a page fault");
pub(crate) const SYSTEM_PAGES: Choice = Choice::new(
    "pages",
    "system",
    "pages as configured for transparent huge pages, as in will-it-scale",
);
