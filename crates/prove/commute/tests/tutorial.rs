//! The conditions of the small interfaces.

mod support;

use knee_commute::models::{counter, map, queue, register, stack};
use snapbox::{assert_data_eq, str};
use support::shown;

#[test]
fn increments_commute_unless_they_return_the_value() {
    let counter = counter::counter();
    assert_data_eq!(
        shown(&counter, &["inc", "inc"]),
        str![[r#"
commute: always

"#]]
    );
    assert_data_eq!(
        shown(&counter, &["inc_get", "inc_get"]),
        str![[r#"
differ: always: a sees n + 1 in a, b, n + 2 in b, a

"#]]
    );
    assert_data_eq!(
        shown(&counter, &["inc", "dec_if_positive"]),
        str![[r#"
commute: n ≠ 0
differ: n = 0: b sees done in a, b, zero in b, a

"#]]
    );
    assert_data_eq!(
        shown(&counter, &["dec_if_positive", "dec_if_positive"]),
        str![[r#"
commute: n ≠ 1
differ: n = 1: a sees done in a, b, zero in b, a

"#]]
    );
    assert_data_eq!(
        shown(&counter, &["inc", "inc", "inc"]),
        str![[r#"
commute: always

"#]]
    );
}

#[test]
fn writes_commute_only_if_they_write_the_same_value() {
    let register = register::register();
    assert_data_eq!(
        shown(&register, &["write", "write"]),
        str![[r#"
commute: b.value = a.value
differ: b.value ≠ a.value: b.value or a.value is left

"#]]
    );
    assert_data_eq!(
        shown(&register, &["write", "read"]),
        str![[r#"
commute: a.value = value
differ: a.value ≠ value: b sees a.value in a, b, value in b, a

"#]]
    );
    assert_data_eq!(
        shown(&register, &["read", "read"]),
        str![[r#"
commute: always

"#]]
    );
}

#[test]
fn on_a_stack_almost_nothing_commutes() {
    let stack = stack::stack();
    assert_data_eq!(
        shown(&stack, &["push", "push"]),
        str![[r#"
commute: a.element = b.element
differ: a.element ≠ b.element: a.element or b.element is left

"#]]
    );
    assert_data_eq!(
        shown(&stack, &["push", "pop"]),
        str![[r#"
commute: plates.length ≥ 1 and a.element = plates(0)
differ: plates.length = 0: b sees a.element in a, b, empty in b, a
differ: a.element ≠ plates(0): b sees a.element in a, b, plates(0) in b, a

"#]]
    );
    assert_data_eq!(
        shown(&stack, &["pop", "pop"]),
        str![[r#"
commute: plates.length = 0
commute: plates.length ≥ 2 and plates(0) = plates(1)
differ: plates.length = 1: a sees plates(0) in a, b, empty in b, a
differ: plates.length ≥ 1 and plates(0) ≠ plates(1): a sees plates(0) in a, b, plates(1) in b, a

"#]]
    );
}

#[test]
fn operations_on_different_keys_commute() {
    let map = map::map();
    assert_data_eq!(
        shown(&map, &["put", "put"]),
        str![[r#"
commute: b.value = a.value
commute: b.key ≠ a.key
differ: b.key = a.key and b.value ≠ a.value: b.value or a.value is left

"#]]
    );
    assert_data_eq!(
        shown(&map, &["put", "swap"]),
        str![[r#"
commute: a.key ≠ b.key
commute: table has b.key and a.value = table[b.key] and b.value = a.value
differ: a.key = b.key and b.value ≠ a.value: b.value or a.value is left
differ: a.key = b.key and a.value ≠ table[b.key]: b sees a.value in a, b, table[b.key] in b, a
differ: table has no b.key and a.key = b.key: b sees a.value in a, b, none in b, a

"#]]
    );
    assert_data_eq!(
        shown(&map, &["put", "get"]),
        str![[r#"
commute: a.key ≠ b.key
commute: table has b.key and a.value = table[b.key]
differ: a.key = b.key and a.value ≠ table[b.key]: b sees a.value in a, b, table[b.key] in b, a
differ: table has no b.key and a.key = b.key: b sees a.value in a, b, none in b, a

"#]]
    );
    assert_data_eq!(
        shown(&map, &["remove", "get"]),
        str![[r#"
commute: a.key ≠ b.key
commute: table has no b.key
differ: table has b.key and a.key = b.key: b sees none in a, b, table[b.key] in b, a

"#]]
    );
}

#[test]
fn producers_and_consumers_of_a_queue_commute_unless_it_is_full_or_empty() {
    let queue = queue::queue();
    assert_data_eq!(
        shown(&queue, &["push", "pop"]),
        str![[r#"
commute: mail.length = 1
differ: mail.length ≥ 2: a sees full in a, b, done in b, a
differ: mail.length = 0: b sees a.message in a, b, empty in b, a

"#]]
    );
    assert_data_eq!(
        shown(&queue, &["push", "push"]),
        str![[r#"
commute: mail.length ≥ 2
commute: mail.length = 0 and a.message = b.message
differ: mail.length = 1: a sees done in a, b, full in b, a
differ: mail.length ≤ 1 and a.message ≠ b.message: a.message or b.message is left

"#]]
    );
    assert_data_eq!(
        shown(&queue, &["pop", "pop"]),
        str![[r#"
commute: mail.length = 0
commute: mail.length ≥ 2 and mail(0) = mail(1)
differ: mail.length = 1: a sees mail(0) in a, b, empty in b, a
differ: mail.length ≥ 1 and mail(0) ≠ mail(1): a sees mail(0) in a, b, mail(1) in b, a

"#]]
    );
}
