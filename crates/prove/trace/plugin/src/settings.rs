//! Parses the plugin's arguments.

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) out: String,
    pub(crate) user: bool,
    pub(crate) trace: Option<u64>,
    pub(crate) resume: Option<String>,
    pub(crate) moves: bool,
    pub(crate) accesses: bool,
    pub(crate) stack: bool,
    /// If true, the plugin traces only user code, and identifies lines by their virtual addresses.
    pub(crate) program: bool,
    pub(crate) registers: bool,
}

/// Parses arguments of the form `name=value`, as QEMU passes them.
pub(crate) fn parse(arguments: &[String]) -> Result<Settings, String> {
    let mut settings = Settings {
        out: String::new(),
        user: false,
        trace: None,
        resume: None,
        moves: false,
        accesses: false,
        stack: true,
        program: false,
        registers: true,
    };
    for argument in arguments {
        let wrong = |expected| format!("invalid argument {argument}: {expected}");
        match argument.split_once('=').ok_or_else(|| wrong("name=value is expected"))? {
            ("out", path) => settings.out = path.to_owned(),
            ("user", "on" | "true") => settings.user = true,
            ("user", "off" | "false") => settings.user = false,
            ("user", _) => return Err(wrong("user must be on or off")),
            ("moves", "on") => settings.moves = true,
            ("moves", "off") => settings.moves = false,
            ("moves", _) => return Err(wrong("moves must be on or off")),
            ("accesses", "on") => settings.accesses = true,
            ("accesses", "off") => settings.accesses = false,
            ("accesses", _) => return Err(wrong("accesses must be on or off")),
            ("stack", "on") => settings.stack = true,
            ("stack", "off") => settings.stack = false,
            ("stack", _) => return Err(wrong("stack must be on or off")),
            ("scope", "program") => settings.program = true,
            ("scope", "machine") => settings.program = false,
            ("scope", _) => return Err(wrong("scope must be program or machine")),
            ("cpu", "registers") => settings.registers = true,
            ("cpu", "number") => settings.registers = false,
            ("cpu", _) => return Err(wrong("cpu must be registers or number")),
            ("trace", index) => {
                let index =
                    index.parse().map_err(|_| wrong("trace must be the index of a test"))?;
                settings.trace = Some(index);
            }
            ("resume", path) => settings.resume = Some(path.to_owned()),
            _ => {
                return Err(wrong(
                    "known arguments are out, user, trace, resume, moves, accesses, stack, scope and \
                     cpu",
                ));
            }
        }
    }
    if settings.out.is_empty() {
        return Err("missing argument out=PATH, the file for results".to_owned());
    }
    if settings.accesses && !settings.moves {
        return Err(
            "accesses=on requires moves=on: it reports accesses to lines that move".to_owned()
        );
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &str) -> Result<Settings, String> {
        parse(&arguments.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_names_and_values() {
        assert_eq!(
            parsed(
                "out=/dev/fd/3 user=on trace=7 resume=/dev/fd/4 moves=on accesses=on stack=off \
                 scope=program cpu=number"
            ),
            Ok(Settings {
                out: "/dev/fd/3".to_owned(),
                user: true,
                trace: Some(7),
                resume: Some("/dev/fd/4".to_owned()),
                moves: true,
                accesses: true,
                stack: false,
                program: true,
                registers: false,
            })
        );
    }

    #[test]
    fn the_message_about_a_wrong_argument_names_the_problem() {
        let expected = "invalid argument user=maybe: user must be on or off";
        assert_eq!(parsed("out=x user=maybe").unwrap_err(), expected);
        let expected = "missing argument out=PATH, the file for results";
        assert_eq!(parsed("user=on").unwrap_err(), expected);
        let expected = "accesses=on requires moves=on: it reports accesses to lines that move";
        assert_eq!(parsed("out=x accesses=on").unwrap_err(), expected);
    }
}
