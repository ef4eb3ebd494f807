//! x
mod entries;
mod formula;
mod oracle;
mod solver;
use knee_commute::*;
#[test]
fn stats() {
    for model in models() {
        let names = model.operations();
        let all = explore_pairs(&*model, &Limits::default()).unwrap();
        in_order(all.len(), |nr| {
            let t = std::time::Instant::now();
            let mut s = solver::Solver::start().unwrap();
            let o = oracle::objections(&mut s, &all[nr].1);
            (t.elapsed(), o, s.queries())
        }, |nr, (t, o, q)| {
            let (p, e) = &all[nr];
            let mut by = std::collections::BTreeMap::new();
            for o in &o { *by.entry((o.fault, o.answer)).or_insert(0) += 1; }
            println!("{} {} {} {} {:?} {q} {t:?} {by:?}", model.name(), names[p[0]].0, names[p[1]].0, e.situations.len(), e.impossible.len());
            for o in o.iter().take(2) { println!("   {o:?} {:?}", o.situation.map(|s| { let s = &e.situations[s]; (s.condition.iter().map(|(l,a)| l.show(*a)).collect::<Vec<_>>(), s.grounds.assumed.iter().map(|(l,a)| l.show(*a)).collect::<Vec<_>>(), &s.verdict, &s.grounds.claims, &s.grounds.open, &s.grounds.fresh) })); }
        });
    }
}
