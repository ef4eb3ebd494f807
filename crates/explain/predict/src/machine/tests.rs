use knee_host::Placement;
use proptest::prelude::*;

use super::*;

/// A machine of two sockets with all kinds of figures.
fn example() -> Machine {
    let mut machine = Machine::built_in("sapphire-rapids-2x24").unwrap();
    let figure =
        |value: f64| Figure { value, low: None, high: Some(value + 1.5), source: "kcores".into() };
    machine.smt_slowdown = Some(figure(1.6));
    machine.wake_ns = Some(figure(3000.0));
    machine.interrupt_ns = Some(Interrupts { first: figure(2000.0), each: Some(figure(300.0)) });
    let points = vec![(1, 5.0), (96, 60.25)];
    machine.contended_ns = Some(Contended { points, source: "multikernel".into() });
    machine.matrix = Some(Matrix { cpus: vec![0, 1], ns: vec![vec![0.0, 50.5], vec![51.0, 0.0]] });
    machine
}

fn refused(machine: &Machine) -> String {
    Machine::parse(&machine.to_toml("")).unwrap_err().to_string()
}

#[test]
fn every_built_in_machine_has_its_own_name_and_a_figure_for_the_socket() {
    let mut names: Vec<String> = Machine::all_built_in().map(|(_, machine)| machine.name).collect();
    assert!(names.is_sorted_by(|a, b| a != b), "{names:?}");
    names.dedup();
    assert!(names.len() >= 10, "{names:?}");
    for (text, machine) in Machine::all_built_in() {
        assert!(machine.transfer_ns.socket.is_some(), "{}", machine.name);
        for (key, figure) in machine.figures() {
            let source = &machine.sources[&figure.source];
            assert!(source.contains(char::is_numeric), "{key} of {}: {source}", machine.name);
        }
        for distance in Distance::ALL {
            let has_distance = machine.distances().any(|known| known == distance);
            let has_figure = machine.transfer_ns.at(distance).is_some();
            assert!(has_distance || !has_figure, "{distance:?} of {}", machine.name);
        }
        assert_eq!(Machine::parse(text).unwrap(), machine);
    }
}

#[test]
fn a_machine_is_the_same_after_writing_and_reading() {
    let machine = example();
    let text = machine.to_toml("The first line.\n\nThe last line.");
    assert!(text.starts_with("# The first line.\n#\n# The last line.\nschema = 1\n"), "{text}");
    assert_eq!(Machine::parse(&text).unwrap(), machine);
    for (_, machine) in Machine::all_built_in() {
        assert_eq!(Machine::parse(&machine.to_toml("")).unwrap(), machine);
    }
}

#[test]
fn a_misspelt_key_is_reported_with_its_line() {
    let text = example().to_toml("").replace("[transfer_ns]", "[transfer_n]");
    let error = Machine::parse(&text).unwrap_err().to_string();
    assert!(
        error.starts_with("line 12: unknown key transfer_n (did you mean transfer_ns"),
        "{error}"
    );
}

#[test]
fn a_value_that_no_machine_has_is_refused_with_its_key() {
    type Change = fn(&mut Machine);
    let changes: [(Change, &str); 16] = [
        (|m| m.title = "x".repeat(1_001), "title: a text has more than 1000 bytes"),
        (
            |m| m.sources.values_mut().for_each(|text| *text = "x".repeat(1_001)),
            "sources: a text has more than 1000 bytes",
        ),
        (
            |m| m.clock.as_mut().unwrap().points = vec![(1, 5e-324)],
            "clock.points: must be from 0.01 to 100",
        ),
        (
            |m| m.contended_ns.as_mut().unwrap().points = vec![(1, 1e-9)],
            "contended_ns.points: must be from 0.1 ns to 1 second",
        ),
        (
            |m| {
                (m.l3s_per_socket, m.cores_per_l3) = (1, 1_001);
                m.clock.as_mut().unwrap().points = (1..=1_001).map(|count| (count, 1.0)).collect();
            },
            "clock.points: there are more than 1000 points",
        ),
        (|m| m.schema = 2, "it has schema 2, but this version of knee reads 1"),
        (|m| m.name = "A b".into(), "name: use lower-case letters"),
        (|m| m.sockets = 0, "sockets: must be a number from 1 to 4096"),
        (|m| m.l3s_per_socket = 4096, "cores_per_l3: the machine has more than 65536 CPUs"),
        (
            |m| m.smt_slowdown.as_mut().unwrap().value = -1.0,
            "smt_slowdown: must be from 0.01 to 100",
        ),
        (
            |m| m.wake_ns.as_mut().unwrap().value = f64::INFINITY,
            "wake_ns: must be from 0.1 ns to 1 second",
        ),
        (|m| m.wake_ns.as_mut().unwrap().high = Some(1.0), "wake_ns: value must be between"),
        (|m| m.sources.clear(), "transfer_ns.socket: [sources] does not contain the source"),
        (|m| m.clock.as_mut().unwrap().points = vec![(2, 1.0), (1, 1.0)], "clock.points: must be"),
        (|m| m.clock.as_mut().unwrap().points = vec![(25, 1.0)], "clock.points: must be points"),
        (|m| m.matrix.as_mut().unwrap().cpus = vec![0], "matrix.ns: must have a row"),
    ];
    for (change, expected) in changes {
        let mut machine = example();
        change(&mut machine);
        let error = refused(&machine);
        assert!(error.starts_with(expected), "{error}\nis not\n{expected}");
    }
}

#[test]
fn the_distances_of_a_machine_are_those_that_it_has() {
    let distances = |name| Machine::built_in(name).unwrap().distances().collect::<Vec<_>>();
    assert_eq!(distances("genoa-2x96"), Distance::ALL);
    assert_eq!(distances("graviton3-64"), [Distance::Socket]);
    let genoa = Machine::built_in("genoa-2x96").unwrap();
    assert_eq!((genoa.cores_per_socket(), genoa.cpus()), (96, 384));
}

#[test]
fn tasks_take_the_cores_of_all_sockets_before_second_threads() {
    let machine = Machine::built_in("haswell-ex-4x18").unwrap();
    let cpus = Placement::Cores.arranged(machine.all_cpus());
    let numbers: Vec<u32> = cpus.iter().map(|cpu| cpu.id).collect();
    assert_eq!(numbers, (0..144).collect::<Vec<_>>());
    let place = |nr: usize| (cpus[nr].package, cpus[nr].l3, cpus[nr].core, cpus[nr].thread);
    assert_eq!([place(17), place(18)], [(0, 0, 17, 0), (1, 1, 18, 0)]);
    assert_eq!([place(71), place(72)], [(3, 3, 71, 0), (0, 0, 0, 1)]);
}

#[test]
fn the_distance_of_cpus_is_the_smallest_part_that_contains_both() {
    let machine = Machine::built_in("genoa-2x96").unwrap();
    let cpus = Placement::Cores.arranged(machine.all_cpus());
    let others = [(192, Distance::Core), (7, Distance::L3), (8, Distance::Socket)];
    for (other, distance) in others.into_iter().chain([(96, Distance::Machine)]) {
        assert_eq!(Distance::between(&cpus[0], &cpus[other], true), distance);
    }
    assert_eq!(Distance::between(&cpus[0], &cpus[7], false), Distance::Socket);
}

#[test]
fn every_field_of_the_schema_has_a_description() {
    let schema = schema();
    let definitions = schema["$defs"].as_object().unwrap();
    for (name, object) in definitions.iter().chain([(&"Machine".to_owned(), &schema)]) {
        for (field, of_field) in object["properties"].as_object().unwrap() {
            assert!(of_field["description"].is_string(), "{name}.{field}");
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(
        start in 0_usize..2000, length in 0_usize..40, with in "\\PC{0,12}",
    ) {
        let mut text = example().to_toml("comment");
        let start = start.min(text.len());
        let end = (start + length).min(text.len());
        text.replace_range(start..end, &with);
        if let Ok(machine) = Machine::parse(&text) {
            prop_assert_eq!(Machine::parse(&machine.to_toml("")).unwrap(), machine);
        }
    }

    #[test]
    fn any_title_and_source_survive_writing(title in "\\PC{0,20}|[\\x00-\\x7f]{0,20}") {
        let mut machine = example();
        machine.title = title.clone();
        machine.sources.insert(title.clone(), title);
        let text = machine.to_toml("");
        let read = Machine::parse(&text).unwrap();
        prop_assert_eq!(read.to_toml(""), text);
        prop_assert!(!read.title.contains(['\n', '\t']));
    }
}
