//! Models in separate programs, valid and invalid ones.

mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use snapbox::{assert_data_eq, str};
use support::{Finished, Scratch, finish};

fn example(name: &str) -> PathBuf {
    support::example("knee-commute", name)
}

fn commute(program: &std::path::Path, args: &[&str]) -> Finished {
    let scratch = Scratch::new();
    let mut knee = scratch.knee(&["commute"]);
    finish(knee.args(args).arg("--model").arg(program).env_remove("RUST_BACKTRACE"))
}

#[test]
fn a_model_in_a_separate_program_works_like_a_built_in_one() {
    let lamp = example("lamp");
    let matrix = commute(&lamp, &["matrix"]);
    assert_data_eq!(
        matrix.assert_code(0).stdout.as_str(),
        str![[r#"
on     100%
toggle   0%   100%
look    50%     0% 100%
         on toggle look

6 of 11 situations of 6 pairs commute (55%).
A situation is a class of initial states and arguments for which the model behaves the same; each situation counts once, however often real programs reach it.

"#]]
    );
    let told = commute(&lamp, &["conditions", "look", "toggle"]);
    told.assert_code(0).assert_stdout_has("They never commute.");
    assert_eq!(commute(&lamp, &["tests"]).assert_code(0).stdout.lines().count(), 6);
    commute(&lamp, &["list"]).assert_stdout_has("toggle(): turns the lamp on if it was dark");
    commute(&lamp, &["conditions", "look", "toggel"]).assert_stderr_has("did you mean toggle?");
}

#[test]
fn a_model_that_panics_is_named_with_the_path_that_shows_it() {
    let told = commute(&example("misbehaving"), &["conditions", "fine", "panics"]);
    told.assert_code(4)
        .assert_stderr_has("no right without left")
        .assert_stderr_has("the model panicked: fine and panics, after: left, not right");
}

#[test]
fn a_matrix_omits_the_pairs_for_which_the_model_fails() {
    let scratch = Scratch::new();
    let faulty = scratch.path().join("faulty");
    let script = format!(
        "#!/bin/sh\ncase $1 in *'[1,1]'*) echo no look >&2; exit 1;; esac\nexec {} \"$1\"\n",
        example("lamp").display()
    );
    std::fs::write(&faulty, script).unwrap();
    std::fs::set_permissions(&faulty, Permissions::from_mode(0o755)).unwrap();
    let told = commute(&faulty, &["matrix"]);
    told.assert_code(4)
        .assert_stderr_has("faulty: toggle and toggle: no look")
        .assert_stderr_has("failed for 1 of 6 pairs");
    assert_data_eq!(
        told.stdout.split_once("\n\n").unwrap().0,
        str![[r#"
on     100%
toggle   0%      ?
look    50%     0% 100%
         on toggle look
"#]]
    );
}

#[test]
fn a_model_that_loops_forever_is_named_with_the_path_that_shows_it() {
    let told = commute(&example("misbehaving"), &["conditions", "fine", "loops"]);
    told.assert_code(4).assert_stderr_has("does not terminate: fine and loops, after: not left");
}

#[test]
fn a_nondeterministic_model_is_named_with_the_path_that_shows_it() {
    let told = commute(&example("misbehaving"), &["conditions", "fine", "wavers"]);
    told.assert_code(4)
        .assert_stderr_has("fine and wavers: the model is not deterministic: it asked")
        .assert_stderr_has("after: ");
}

#[test]
fn a_model_that_asks_forever_is_abandoned_with_a_warning() {
    let told = commute(&example("misbehaving"), &["conditions", "fine", "asks"]);
    told.assert_code(0).assert_stderr_has("on more than 200 conditions");
}

#[test]
fn a_program_that_writes_without_end_is_not_a_model() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("endless");
    std::fs::write(&program, "#!/bin/sh\nexec yes\n").unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    commute(&program, &["list"]).assert_code(4).assert_stderr_has("it is longer than 1 MiB");
}

#[test]
fn a_program_that_is_not_a_model_is_reported() {
    let told = |program: &str| commute(std::path::Path::new(program), &["matrix"]);
    told("/bin/true").assert_code(4).assert_stderr_has("/bin/true: this is not a model");
    told("/nowhere/lamp")
        .assert_code(3)
        .assert_stderr_has("cannot run /nowhere/lamp: No such file");
    let both = ["commute", "matrix", "--model", "/bin/true", "--interface", "map"];
    finish(&mut Scratch::new().knee(&both)).assert_code(2);
}
