//! The page in a real browser, if one is installed: the console has no errors, and a URL fragment
//! shows what it names.

mod synthetic;

use std::path::{Path, PathBuf};
use std::process::Command;

use knee_host::skip::skip;
use knee_report::render;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A page in a temporary directory, and the browser to open it.
struct Opened {
    dir: tempfile::TempDir,
    browser: &'static str,
}

/// The page as the browser shows it.
struct Shown {
    dom: String,
    log: String,
}

impl Opened {
    /// `None`, with a message, if no browser is installed.
    fn new(kind: &str) -> Option<Self> {
        let runs = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
        let Some(browser) = BROWSERS.iter().find(runs) else {
            skip("browser", format_args!("none of {} is installed", BROWSERS.join(", ")));
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("page.html"), render(&synthetic::page(kind)?)).unwrap();
        Some(Self { dir, browser })
    }

    fn run(&self, fragment: &str, arguments: &[&str]) -> Shown {
        let profile = tempfile::tempdir().unwrap();
        let page: PathBuf = self.dir.path().join("page.html");
        let output = Command::new("timeout")
            .args(["120", self.browser])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args(["--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync"])
            .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(arguments)
            .arg(format!("file://{}{fragment}", page.display()))
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Shown { dom: text(output.stdout), log: text(output.stderr) }
    }

    fn show(&self, fragment: &str) -> Shown {
        self.show_for(2000, fragment)
    }

    /// The page after `budget` milliseconds of the browser's virtual time.
    fn show_for(&self, budget: u32, fragment: &str) -> Shown {
        let budget = format!("--virtual-time-budget={budget}");
        let shown = self.run(fragment, &[&budget, "--dump-dom"]);
        assert!(shown.dom.contains("</html>"), "no page: {}", shown.log);
        let console: Vec<&str> = shown.log.lines().filter(|l| l.contains("CONSOLE")).collect();
        assert!(console.is_empty(), "{console:#?}");
        shown
    }
}

impl Shown {
    /// Names of the testcases with visible tiles, in order.
    fn tiles(&self) -> Vec<&str> {
        let tags = self.dom.split(r#"<li class="tile" data-case=""#).skip(1);
        tags.filter_map(|rest| {
            let (tag, _) = rest.split_once('>')?;
            let (name, attributes) = tag.split_once('"')?;
            (!attributes.contains("hidden")).then_some(name)
        })
        .collect()
    }

    /// The visible details of the selected pair of each matrix.
    fn shown_pairs(&self) -> Vec<&str> {
        let regions = self.dom.split(r#"<div class="shown-pair""#).skip(1);
        regions.filter_map(|rest| rest.split("<details").next()).collect()
    }

    fn count(&self, what: &str) -> usize {
        self.dom.matches(what).count()
    }
}

#[test]
fn the_script_keeps_every_curve_and_the_console_is_empty() {
    let Some(page) = Opened::new("one") else { return };
    let shown = page.show("");
    assert_eq!(shown.tiles().len(), 14);
    assert_eq!(shown.count(r#"<svg class="spark""#), 28);
    assert_eq!(shown.count(r#"<svg class="chart""#), 84);
    assert!(
        !shown
            .dom
            .contains(r#"<form id="filters" role="search" aria-label="Filter testcases" hidden"#)
    );
    assert!(shown.dom.contains("14 of 14 testcases"));
}

#[test]
fn the_fragment_filters_by_word_family_mode_and_verdict() {
    let Some(page) = Opened::new("two") else { return };
    assert_eq!(page.show("#q=mmap").tiles(), ["mmap1"]);
    assert_eq!(page.show("#family=memory&sort=name").tiles(), ["brk1", "mmap1", "page_fault1"]);
    assert_eq!(page.show("#change=slower").tiles(), ["signal1"]);
    assert_eq!(page.show("#mode=processes&verdict=retrograde").tiles(), [""; 0]);
    let none = page.show("#q=nosuch");
    assert!(none.dom.contains("0 of 14 testcases"));
    assert!(none.dom.contains(r#"<p class="none">"#));
}

#[test]
fn the_fragment_selects_a_testcase_and_a_task_count() {
    let Some(page) = Opened::new("two") else { return };
    let shown = page.show("#case=fork1&n=48");
    assert!(shown.dom.contains(r#"<details class="case selected" id="case=fork1""#));
    assert!(shown.dom.contains(r##"<a href="#case=fork1" aria-current="true">"##));
    // Two modes with four charts each.
    assert_eq!(shown.count(r#"<path class="cursor""#), 8);
    assert!(shown.dom.contains("48 threads, 6.12: not measured: fork: Resource"));
    assert!(shown.dom.contains("48 processes, 6.12: "));
}

#[test]
fn latencies_are_drawn_and_the_console_is_empty() {
    let Some(page) = Opened::new("latency") else { return };
    let shown = page.show("#case=mmap1&n=16");
    assert_eq!(shown.count(r#"<svg class="chart latency-chart""#), 4);
    // The other charts have an axis of tasks. Two modes with four such charts each.
    assert_eq!(shown.count(r#"<path class="cursor""#), 8);
}

#[test]
fn predictions_are_drawn_and_the_console_is_empty() {
    let Some(page) = Opened::new("predictions") else { return };
    let shown = page.show("#prediction-1");
    let (_, section) = shown.dom.split_once(r#"id="predictions""#).unwrap();
    assert_eq!(section.matches(r#"<svg class="chart""#).count(), 3);
    // The script of the testcases leaves them alone.
    assert_eq!(section.matches(r#"<path class="cursor""#).count(), 0);
}

#[test]
fn a_page_of_a_hundred_testcases_with_256_points_opens() {
    let Some(page) = Opened::new("huge") else { return };
    let shown = page.show("#case=mmap1_3&n=200&mode=threads");
    assert_eq!(shown.tiles().len(), 100);
    assert!(shown.dom.contains("200 threads: "));
    // The first testcase and the unpacked one: both modes, one of which is visible.
    assert_eq!(shown.count(r#"<svg class="chart""#), 12);
    assert!(shown.dom.contains(r#"id="case=mmap1_3&amp;mode=processes" hidden"#));
    assert!(!shown.dom.contains(r#"id="case=mmap1_3&amp;mode=threads" hidden"#));
}

#[test]
fn the_table_and_the_download_of_a_packed_testcase_hold_every_point() {
    let Some(page) = Opened::new("huge") else { return };
    let shown = played(
        &page,
        "const details = document.querySelector('details[data-case=\"mmap1_3\"]');
         document.querySelector('.tile a[href=\"#case=mmap1_3\"]').click();
         const wait = (what) => new Promise((done) => {
           // Timers consume the browser's virtual time, but unpacking takes real time. Many steps
           // between two checks let some real time pass, and more of it on a slow machine.
           const idle = () => {
             for (let i = 0, x = 1; i < 1e5; i++) { window.spent = x = (x * 48271) % 2147483647; }
           };
           const look = () => {
             const found = what();
             if (found) { done(found); } else { idle(); setTimeout(look, 5); }
           };
           look();
         });
         (await wait(() => details.querySelector('.data'))).open = true;
         await wait(() => details.querySelector('.rows table'));
         let csv;
         URL.createObjectURL = (blob) => { blob.text().then((text) => { csv = text; }); return '#'; };
         document.querySelector('.tools button').click();
         await wait(() => csv);
         document.body.dataset.lines = csv.split('\\n').length - 1;
         document.body.dataset.rows = details.querySelectorAll('.rows tbody tr').length;",
    );
    assert!(shown.dom.contains("data-rows=\"256\""), "{}", shown.log);
    // A header, then 100 testcases in two modes.
    assert!(shown.dom.contains(&format!("data-lines=\"{}\"", 1 + 200 * 256)), "{}", shown.log);
}

/// `page` with a script that simulates the reader, and without the policy that would refuse it.
fn played(page: &Opened, script: &str) -> Shown {
    let file = page.dir.path().join("page.html");
    let html = std::fs::read_to_string(&file).unwrap();
    let (before, policy) = html.split_once("<meta http-equiv").unwrap();
    let (_, after) = policy.split_once('>').unwrap();
    let played = format!("{before}{after}")
        .replace("</body>", &format!("<script type=\"module\">{script}</script></body>"));
    std::fs::write(&file, played).unwrap();
    page.show_for(30_000, "")
}

#[test]
fn a_click_selects_and_the_back_button_returns() {
    let Some(page) = Opened::new("two") else { return };
    let shown = played(
        &page,
        "const open = () => [...document.querySelectorAll('.selected')].map((d) => d.dataset.case);
         const seen = [];
         document.querySelector('.tile a[href=\"#case=mmap1\"]').click();
         seen.push(location.hash, open());
         document.querySelector('[data-case=\"fork1\"] > summary').click();
         seen.push(location.hash, open());
         addEventListener('popstate', () => {
           seen.push(location.hash, open());
           document.body.dataset.seen = seen.join(' ');
         });
         history.back();",
    );
    let seen = "#case=mmap1 mmap1 #case=fork1 fork1 #case=mmap1 mmap1";
    assert!(shown.dom.contains(&format!("data-seen=\"{seen}\"")), "{}", &shown.log);
}

/// The CSV of the points of `mmap1`, which a button of the page saves.
fn downloaded(page: &Opened) -> String {
    let shown = played(
        page,
        "URL.createObjectURL = (blob) => {
           blob.text().then((text) => { document.body.dataset.csv = text; });
           return '#';
         };
         document.querySelector('details[data-case=\"mmap1\"] .tools button').click();",
    );
    let (_, csv) = shown.dom.split_once("data-csv=\"").unwrap();
    csv.split('"').next().unwrap().to_owned()
}

#[test]
fn the_points_of_a_testcase_can_be_saved_as_csv() {
    let Some(page) = Opened::new("few") else { return };
    let csv = downloaded(&page);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("run,testcase,mode,tasks,rate,low,high,"), "{}", lines[0]);
    assert!(lines[1].starts_with("6.12,mmap1,processes,1,"), "{}", lines[1]);
    // Two runs, two modes, ten task counts.
    assert_eq!(lines.len(), 1 + 40);
}

#[test]
fn no_cell_of_a_downloaded_table_begins_like_a_formula() {
    let Some(page) = Opened::new("few") else { return };
    let file = page.dir.path().join("page.html");
    let html = std::fs::read_to_string(&file).unwrap();
    for label in ["=6.12", " \u{200b}＝6.12"] {
        let forged = html.replace("\"label\":\"6.12\"", &format!("\"label\":\"{label}\""));
        assert_ne!(forged, html);
        std::fs::write(&file, forged).unwrap();
        let csv = downloaded(&page);
        let line = csv.lines().nth(1).unwrap();
        assert!(line.starts_with(&format!("'{label},mmap1,processes,1,")), "{line}");
    }
}

#[test]
fn doubtful_points_are_told_apart_in_the_downloads_and_beside_the_slider() {
    let Some(page) = Opened::new("doubtful") else { return };
    let shown = played(
        &page,
        "const details = document.querySelector('details[data-case=\"page_fault1\"]');
         const texts = [];
         URL.createObjectURL = (blob) => { texts.push(blob.text()); return '#'; };
         for (const button of details.querySelectorAll('.tools button')) button.click();
         const [csv, json] = await Promise.all(texts);
         const rows = csv.split('\\n').map((line) => line.split(','));
         const at = (name) => rows[0].indexOf(name);
         const seen = rows.filter((row) => row[0] === '6.12' && row[2] === 'threads')
           .filter((row) => ['2', '4', '48'].includes(row[3]))
           .map((row) => ['tasks', 'disturbed', 'oversubscribed', 'implausible', 'measured']
             .map((name) => row[at(name)]).join('/') + '/' + (row[at('efficiency')] !== ''));
         const curve = JSON.parse(json).cases[0].curves.find((c) => c.mode === 'threads');
         seen.push(curve.scaling, curve.points.filter((point) => point.disturbed).length);
         document.body.dataset.seen = seen.join(' ');
         location.hash = '#case=page_fault1&n=4&mode=threads';",
    );
    let seen = "2/false/false/false/5/true 4/true/false/false/5/false 48/false/true/false/5/false \
                disturbed 1";
    assert!(shown.dom.contains(&format!("data-seen=\"{seen}\"")), "{}", shown.log);
    assert!(shown.dom.contains("4 threads, 6.12: ⊗ disturbed, nothing is concluded · "));
    assert!(shown.dom.contains("too disturbed to compare with 6.12"));
}

#[test]
fn the_downloads_contain_the_latency() {
    let Some(page) = Opened::new("latency") else { return };
    let shown = played(
        &page,
        "const details = document.querySelector('details[data-case]');
         location.hash = `#case=${details.dataset.case}`;
         await new Promise((resolve) => setTimeout(resolve));
         const texts = [];
         URL.createObjectURL = (blob) => { texts.push(blob.text()); return '#'; };
         for (const button of details.querySelectorAll('.tools button')) button.click();
         const [csv, json] = await Promise.all(texts);
         const [names, first] = csv.split('\\n').map((line) => line.split(','));
         const point = JSON.parse(json).cases[0].curves[0].points[0];
         const seen = ['p50', 'p99', 'p99_9', 'max'].map((name) => {
           const cell = Number(first[names.indexOf(`latency_${name}`)]);
           return cell > 0 && cell === point.latency[name];
         });
         const { p50, p90, p99, max } = point.latency;
         document.body.dataset.seen = [...seen, p50 < p90, p90 < p99, p99 < max].join(' ');",
    );
    let seen = ["true"; 7].join(" ");
    assert!(shown.dom.contains(&format!("data-seen=\"{seen}\"")), "{}", shown.log);
}

#[test]
fn the_pair_that_commutes_least_is_shown_until_another_one_is_selected() {
    let Some(page) = Opened::new("matrices") else { return };
    let shown = page.show("#commute=made-up-4.call1.call2");
    let pairs = shown.shown_pairs();
    assert_eq!(pairs.len(), 2);
    assert!(pairs[0].contains("They never commute."), "{}", pairs[0]);
    assert!(pairs[1].contains("a (call1) sees x"), "{}", pairs[1]);
    assert!(pairs[1].contains("200 of 400 situations commute (50"), "{}", pairs[1]);
    assert_eq!(shown.count("aria-current=\"true\""), 2);
    // The list stays closed, and the runs work as on a page without matrices.
    assert_eq!(shown.count(r#"<details class="data conditions">"#), 2);
    assert!(shown.dom.contains("2 of 2 testcases"));
}

#[test]
fn arrow_keys_and_clicks_select_a_cell_and_pointing_previews_it() {
    let Some(page) = Opened::new("matrix") else { return };
    let shown = played(
        &page,
        "const cell = (text) => document.querySelector(`.heat[aria-label^=\"${text}:\"]`);
         const seen = [];
         const see = () => {
           const calls = [...document.querySelectorAll('.shown-pair .calls strong')];
           seen.push(calls.map((call) => call.textContent).join('+'));
         };
         const press = (key) => {
           document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
           see();
         };
         const point = (type, target) => {
           target.dispatchEvent(new PointerEvent(type, { bubbles: true }));
           see();
         };
         cell('call0 and call0').focus();
         for (const key of ['ArrowDown', 'ArrowRight', 'ArrowRight', 'ArrowDown']) press(key);
         point('pointerover', cell('call2 and call2'));
         point('pointerleave', document.querySelector('.matrix'));
         cell('call0 and call2').click();
         see();
         document.body.dataset.seen = seen.join(' ') + ' ' + location.hash;
         document.body.dataset.stops = document.querySelectorAll('.heat[tabindex=\"0\"]').length;",
    );
    let seen = "call0+call1 call1+call1 call1+call1 call1+call2 call2+call2 call1+call2 \
                call0+call2 #commute=made-up-4.call0.call2";
    assert!(shown.dom.contains(&format!("data-seen=\"{seen}\"")), "{}", shown.dom);
    assert!(shown.dom.contains("data-stops=\"1\""));
}

#[test]
fn an_open_pair_shows_its_data_its_tests_and_the_functions_that_access_it() {
    let Some(page) = Opened::new("shared") else { return };
    let shown = page.show("#shared=1.open.close");
    let [pair] = shown.shown_pairs()[..] else { panic!("{}", shown.dom) };
    assert!(pair.contains("open and close: 1 of 3 tests are conflict-free (33.3"), "{pair}");
    let (_, opened) = shown.dom.split_once("<h4>What they share</h4>").unwrap();
    let (summary, _) = opened.split_once("</summary>").unwrap();
    assert!(summary.contains("struct file.f_count") && summary.contains(" 2 tests"), "{summary}");
    assert!(!shown.dom.contains("filp_close"), "it is made when it is opened");
    let shown = played(
        &page,
        "location.hash = '#shared=1.open.close';
         const when = (find, then) => {
           const found = find();
           found ? then(found) : setTimeout(() => when(find, then), 10);
         };
         const open = (words) => {
           const summaries = [...document.querySelectorAll('.shown-pair summary')];
           const found = summaries.filter((summary) => summary.textContent.startsWith(words));
           for (const summary of found) summary.parentElement.open = true;
           return found.length;
         };
         when(() => open('2 tests: conflict'), () => {
           when(() => open('open,close/0.0'), () => {
             when(() => document.querySelector('.shown-pair .lines')?.innerText, (lines) => {
               document.body.dataset.lines = lines;
             });
           });
         });",
    );
    let (_, lines) = shown.dom.split_once("data-lines=\"").unwrap();
    let lines = lines.split('"').next().unwrap();
    for text in [
        "open bytes 24–31 written by fget, fput",
        "close bytes 24–31",
        "filp_close",
        "fd &lt;table&gt; (false sharing)",
    ] {
        assert!(lines.contains(text), "{text}: {lines}");
    }
}

#[test]
fn a_long_list_of_tests_is_shown_in_two_steps() {
    let Some(page) = Opened::new("shared") else { return };
    let shown = played(
        &page,
        "location.hash = '#shared=1.close.close';
         const when = (find, then) => {
           const found = find();
           found ? then(found) : setTimeout(() => when(find, then), 10);
         };
         const listed = () => document.querySelectorAll('.shown-pair .test').length;
         when(() => document.querySelector('.shown-pair details'), (details) => {
           details.open = true;
           when(listed, (few) => {
             document.querySelector('.shown-pair button').click();
             document.body.dataset.listed = `${few} ${listed()}`;
           });
         });",
    );
    assert!(shown.dom.contains("data-listed=\"200 250\""), "{}", shown.dom);
}

#[test]
fn a_narrow_screen_scrolls_a_matrix_and_not_the_page() {
    let Some(page) = Opened::new("matrices") else { return };
    let narrow = "document.documentElement.style.width = '390px';
         const wide = document.querySelector('.matrix-and-pair');
         const scroll = wide.querySelector('.scroll');
         document.body.dataset.page = wide.scrollWidth <= wide.clientWidth;
         document.body.dataset.matrix = scroll.scrollWidth > scroll.clientWidth;";
    let shown = played(&page, narrow);
    assert!(shown.dom.contains("data-page=\"true\"") && shown.dom.contains("data-matrix=\"true\""));
}

#[test]
fn the_browser_refuses_foreign_code_and_reports_it_on_the_console() {
    let Some(page) = Opened::new("single") else { return };
    let file = page.dir.path().join("page.html");
    let html = std::fs::read_to_string(&file).unwrap();
    let foreign = "<script>document.body.className = 'foreign'</script></body>";
    std::fs::write(&file, html.replace("</body>", foreign)).unwrap();
    let shown = page.run("", &["--dump-dom"]);
    assert!(!shown.dom.contains(r#"<body class="foreign">"#));
    assert!(shown.log.lines().any(|line| line.contains("CONSOLE")), "{}", shown.log);
}

#[test]
fn the_page_is_dark_if_the_reader_prefers_dark() {
    let Some(page) = Opened::new("one") else { return };
    let picture = |name: &str, scheme: &str| {
        let file = page.dir.path().join(name);
        let setting = format!("--blink-settings=preferredColorScheme={scheme}");
        let shot = format!("--screenshot={}", file.display());
        page.run("", &[&setting, &shot, "--window-size=600,800"]);
        size(&file)
    };
    let (dark, light) = (picture("dark.png", "0"), picture("light.png", "1"));
    assert!(dark > 10_000 && light > 10_000, "an empty picture: {dark}, {light} bytes");
    let same = |a: &str, b: &str| {
        std::fs::read(page.dir.path().join(a)).unwrap()
            == std::fs::read(page.dir.path().join(b)).unwrap()
    };
    assert!(!same("dark.png", "light.png"));
}

#[test]
fn the_page_prints() {
    let Some(page) = Opened::new("one") else { return };
    let file = page.dir.path().join("page.pdf");
    page.run("", &[&format!("--print-to-pdf={}", file.display())]);
    assert!(size(&file) > 50_000, "{} bytes", size(&file));
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |metadata| metadata.len())
}
