//! Change points in published series.

use knee_stats::{ChangeOptions, change_points};

/// Flow of the Nile at Aswan in 10⁸ m³, 1871 to 1970 (R's `Nile`; G. W. Cobb, "The problem of
/// the Nile: conditional solution to a change-point problem", Biometrika 65, 1978).
const NILE: [f64; 100] = [
    1120., 1160., 963., 1210., 1160., 1160., 813., 1230., 1370., 1140., 995., 935., 1110., 994.,
    1020., 960., 1180., 799., 958., 1140., 1100., 1210., 1150., 1250., 1260., 1220., 1030., 1100.,
    774., 840., 874., 694., 940., 833., 701., 916., 692., 1020., 1050., 969., 831., 726., 456.,
    824., 702., 1120., 1100., 832., 764., 821., 768., 845., 864., 862., 698., 845., 744., 796.,
    1040., 759., 781., 865., 845., 944., 984., 897., 822., 1010., 771., 676., 649., 846., 812.,
    742., 801., 1040., 860., 874., 848., 890., 744., 749., 838., 1050., 918., 986., 797., 923.,
    975., 815., 1020., 906., 901., 1170., 912., 746., 919., 718., 714., 740.,
];

/// Construction of the first dam at Aswan began in 1899, and the climate changed in that year.
#[test]
fn the_nile_fell_in_1899() {
    let found = change_points(&NILE, &ChangeOptions::default());
    let [change] = found[..] else { panic!("{found:?}") };
    assert_eq!(1871 + change.index, 1899);
    assert!(change.p <= 0.001, "{change:?}");
    assert_eq!((change.before_median, change.after_median), (1130.0, 842.5));
}

#[test]
fn another_seed_finds_the_same_change() {
    for seed in 0..5 {
        let found = change_points(&NILE, &ChangeOptions { seed, ..Default::default() });
        assert_eq!(found.iter().map(|c| c.index).collect::<Vec<_>>(), [28], "{seed}");
    }
}
