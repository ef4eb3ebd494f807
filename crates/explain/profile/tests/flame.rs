//! Tests the script of the flame graph in a browser, if one is installed: clicks, keys and search.

use std::path::Path;
use std::process::Command;

use knee_host::skip::skip;
use knee_profile::capture::{Capture, Clock, Function, Kind, Stacks, Unit};
use knee_profile::view::flame::flame;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn graph() -> String {
    let function = |name: &str| Function::new(name, Kind::User);
    let [main, left, right, leaf] = ["main", "left", "right", "leaf"].map(function);
    let mut stacks = Stacks::default();
    stacks.add("prog", [&main, &left, &leaf], 50, 50);
    stacks.add("prog", [&main, &right, &leaf], 25, 25);
    stacks.add("prog", [&main, &right, &leaf, &leaf], 5, 5);
    stacks.add("prog", [&main], 20, 20);
    flame(&Capture {
        title: "a test".into(),
        clock: Clock { event: "cycles".into(), unit: Unit::Cycles, ..Clock::default() },
        ..stacks.finish()
    })
}

/// The result of a script in a page with the graph; `None` with a message if no browser is installed.
fn say(script: &str) -> Option<String> {
    let runs = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let Some(browser) = BROWSERS.iter().find(runs) else {
        skip("browser", format_args!("none of {} is installed", BROWSERS.join(", ")));
        return None;
    };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let text = format!(
        r##"<!DOCTYPE html><title>t</title>{}
<script>
const said = [];
window.addEventListener("error", (event) => said.push("error: " + event.message));
const frames = (name) => [...document.querySelectorAll("g")].filter((g) => g.dataset.name === name);
const frame = (name) => frames(name)[0];
const width = (name) => frame(name).querySelector("rect").getAttribute("width");
const press = (key, on, more) =>
  (on ?? document.activeElement).dispatchEvent(new KeyboardEvent("keydown", {{ key, bubbles: true, ...more }}));
const type = (text) => {{
  const input = document.querySelector("input");
  input.value = text;
  input.dispatchEvent(new Event("input"));
  return document.querySelector("output").textContent;
}};
{script}
document.title = said.join("|");
</script>"##,
        graph()
    );
    std::fs::write(&page, text).unwrap();
    let title = title(browser, &page, &dir.path().join("profile"));
    Some(title.replace("&amp;", "&"))
}

fn title(browser: &str, page: &Path, profile: &Path) -> String {
    let output = Command::new("timeout")
        .args(["120", browser])
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
        .args(["--no-first-run", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = dom.split_once("<title>").unwrap_or_else(|| panic!("no title in {dom}"));
    rest.split_once("</title>").unwrap().0.to_owned()
}

#[test]
fn a_click_zooms_in_and_escape_zooms_out() {
    let said = say(r#"
        said.push(width("right"));
        frame("right").dispatchEvent(new MouseEvent("click", { bubbles: true }));
        said.push(width("right"), width("main"), frame("left").style.display);
        press("Escape");
        said.push(width("right"), width("main"), frame("left").style.display);
    "#);
    if let Some(said) = said {
        assert_eq!(said, "30%|100%|100%|none|30%|100%|");
    }
}

#[test]
fn arrow_keys_move_along_the_stacks() {
    let said = say(r#"
        frame("main").focus();
        const where = () => said.push(document.activeElement.dataset.name);
        for (const key of ["ArrowUp", "ArrowRight", "ArrowUp", "ArrowDown", "ArrowLeft"]) {
          press(key);
          where();
        }
        press("Enter");
        said.push(width("left"));
    "#);
    if let Some(said) = said {
        assert_eq!(said, "left|right|leaf|right|left|100%");
    }
}

#[test]
fn a_search_shows_its_share_and_counts_nested_functions_once() {
    let said = say(r#"
        said.push(type("leaf"), type("LEFT|right"), type("nothing"), type("("), type(""));
        frame("main").focus();
        press("f", null, { ctrlKey: true });
        said.push(document.activeElement.tagName);
    "#);
    if let Some(said) = said {
        let expected =
            "3 found, 80.00%|2 found, 80.00%|0 found, 0.00%|not a regular expression||INPUT";
        assert_eq!(said.to_ascii_lowercase(), expected.to_ascii_lowercase());
    }
}
