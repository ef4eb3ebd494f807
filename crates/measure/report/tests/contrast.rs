//! Every text colour contrasts with its background in every scheme, and the colours of a matrix
//! contrast with each other.

const STYLE: &str = include_str!("../assets/report.css");
/// Level AA of the Web Content Accessibility Guidelines for text.
const LEAST_CONTRAST: f64 = 4.5;

/// The colours of each `:root` block: light, dark, print.
fn schemes() -> Vec<Vec<(String, [u8; 3])>> {
    STYLE
        .split(":root {")
        .skip(1)
        .map(|block| {
            let declarations = block.split('}').next().unwrap().split(';');
            declarations
                .filter_map(|line| {
                    let (name, colour) = line.trim().strip_prefix("--")?.split_once(": #")?;
                    let channel = |i| u8::from_str_radix(&colour[i..i + 2], 16).unwrap();
                    Some((name.to_owned(), [channel(0), channel(2), channel(4)]))
                })
                .collect()
        })
        .collect()
}

fn luminance(colour: [u8; 3]) -> f64 {
    let [r, g, b] = colour.map(|channel| {
        let c = f64::from(channel) / 255.0;
        if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
    let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
    if a > b { a / b } else { b / a }
}

#[test]
fn text_is_readable_in_light_in_dark_and_on_paper() {
    let schemes = schemes();
    assert_eq!(schemes.len(), 3);
    for colours in schemes {
        let find = |name: &str| colours.iter().find(|(n, _)| n == name).unwrap().1;
        for (name, colour) in &colours {
            let is_background = ["page", "panel", "rule"].contains(&name.as_str());
            if is_background || name.starts_with("heat") || name.starts_with("on-") {
                continue;
            }
            for behind in ["page", "panel"] {
                let contrast = contrast(*colour, find(behind));
                assert!(contrast >= LEAST_CONTRAST, "--{name} on --{behind}: {contrast:.2}");
            }
        }
    }
}

#[test]
fn shares_are_readable_and_lower_ones_contrast_more_with_the_page() {
    for colours in schemes() {
        let find = |name: &str| colours.iter().find(|(n, _)| n == name).unwrap().1;
        let heat = |level: usize| find(&format!("heat{level}"));
        for level in 0..10 {
            let on = find(if level < 4 { "on-strong" } else { "on-weak" });
            let contrast = contrast(on, heat(level));
            assert!(contrast >= LEAST_CONTRAST, "{level}: {contrast:.2}");
        }
        let away = |colour| contrast(colour, find("page"));
        let scale: Vec<f64> = (0..10).map(|level| away(heat(level))).collect();
        assert!(scale.windows(2).all(|pair| pair[0] > pair[1] * 1.08), "{scale:.2?}");
        // Never and always differ more from the page than their neighbours.
        let (never, always) = (away(find("text")), away(find("panel")));
        assert!(never > scale[0] * 1.08, "{never:.2} {:.2}", scale[0]);
        assert!(scale[9] > always * 1.08, "{:.2} {always:.2}", scale[9]);
    }
}
