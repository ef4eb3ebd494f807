use proptest::prelude::*;

use super::super::kernel::memory;
use super::super::kernel::{
    CPU_AREAS, DIRECT, FILES, IMAGE, INODES, OTHER, PAGES, PIPE_DATA, RAM_BYTES,
};
use super::super::kernel::{SMALL, STATIC, SYMBOLS, TABLE, TABLE_BYTES, VMEMMAP};
use super::*;
use crate::record::Touch;

/// A conflict on a line. `written` is the mask of the bytes that side 0 writes, and `read` is the
/// mask of the bytes that side 1 reads.
fn conflict(physical: u64, address: u64, written: u64, read: u64) -> Conflict {
    let touch = |side, read: u64, written: u64| Touch {
        side,
        first: (read | written).trailing_zeros(),
        last: 63 - (read | written).leading_zeros(),
        read,
        written,
        virtuals: vec![address],
        writers: Vec::new(),
        readers: vec![IMAGE + 0x123],
        callers: Vec::new(),
    };
    let sides = vec![touch(0, 0, written), touch(1, read, 0)];
    Conflict {
        line: physical,
        overlap: written & read != 0,
        sides,
        datum: None,
        by_position: false,
        object: None,
    }
}

/// The name of a byte of physical memory that the kernel accesses through its direct map.
fn named(resolver: &mut Resolver, physical: u64) -> String {
    let line = physical & !63;
    let byte = 1 << (physical - line);
    resolver.datum(&conflict(line, DIRECT + line, byte, byte)).to_string()
}

fn resolver() -> Resolver {
    let resolver = Resolver::new(memory(), SYMBOLS);
    assert_eq!(resolver.missing(), [] as [&str; 0]);
    resolver
}

#[test]
fn types_of_loaded_modules_are_known() {
    let resolver = Resolver::new(memory(), SYMBOLS);
    let types = resolver.types.as_ref().expect("types");
    assert_eq!(types.btf.offset("xfs_inode.i_flags"), Some(72));
}

#[test]
fn modules_in_a_cycle_and_too_large_descriptions_are_read_once() {
    let types = |ram: Ram| Resolver::new(ram, SYMBOLS).types.expect("types").btf.types();
    let once = types(memory());
    let (module, described) = (STATIC + 0x1a0, STATIC + 0x1c0);
    let ram = memory();
    ram.write(module, &(DIRECT + module).to_le_bytes()).expect("write a link to itself");
    assert_eq!(types(ram), once);
    // A second link to the same description.
    let bytes = |bytes: u64| {
        let ram = memory();
        let second = STATIC + 0x400;
        ram.write(module, &(DIRECT + second).to_le_bytes()).expect("write a link");
        for (at, value) in [(second, IMAGE + STATIC + 0xc0), (second + 16, DIRECT + described)] {
            ram.write(at, &value.to_le_bytes()).expect("write a module");
        }
        ram.write(described + 8, &bytes.to_le_bytes()).expect("write a size");
        types(ram)
    };
    assert!(bytes(200) > once);
    assert!(bytes(MAX_BTF + 1) < once);
}

#[test]
fn addresses_at_the_end_of_the_address_space_are_no_overflow() {
    let end = format!("{:016x}", u64::MAX);
    let base = (STATIC + 0x200, format!("{:016x} d vmemmap_base\n", IMAGE + STATIC + 0x200));
    for symbols in [
        SYMBOLS.replace("0000000000000000 A __per_cpu_start", &format!("{end} A __per_cpu_start")),
        SYMBOLS
            .replace("ffffffff80070080 D __per_cpu_offset", &format!("{end} D __per_cpu_offset")),
        SYMBOLS.to_owned() + &base.1,
        SYMBOLS.to_owned() + &base.1.replace("vmemmap_base", "page_offset_base"),
    ] {
        let ram = memory();
        ram.write(base.0, &(u64::MAX - 64).to_le_bytes()).expect("write a base");
        let mut resolver = Resolver::new(ram, &symbols);
        for address in [u64::MAX - 63, DIRECT + FILES, DIRECT + OTHER, IMAGE + STATIC] {
            let datum = resolver.datum(&conflict(FILES, address, 1, 1));
            assert!(!datum.fields.is_empty());
        }
    }
}

#[test]
fn objects_of_a_cache_are_named_by_the_fields_of_their_type() {
    let mut resolver = resolver();
    assert_eq!(named(&mut resolver, FILES + 256 + 8), "file.f_count");
    assert_eq!(named(&mut resolver, FILES + 2 * 256 + 71), "file.f_pos");
}

#[test]
fn the_type_of_a_field_and_the_layout_of_its_struct_are_described_once() {
    let mut resolver = resolver();
    named(&mut resolver, FILES + 256 + 8);
    named(&mut resolver, INODES + 64 + 8);
    let layouts = resolver.take_layouts();
    let field = |name: &str| {
        let field = &layouts.fields[name];
        (&*field.of, &*field.within)
    };
    assert_eq!(field("file.f_count"), ("int", "file"));
    assert_eq!(field("inode.i_lock"), ("spinlock_t", "inode"));
    assert_eq!(layouts.structs["file"].bytes, 256);
    let members = layouts.structs["inode"].members.iter();
    let members: Vec<_> = members.map(|m| (&*m.name, &*m.of, m.offset, m.bytes)).collect();
    // The fields of the anonymous union are the struct's own.
    assert_eq!(
        members,
        [
            ("i_mode", "int", 0, 4),
            ("i_lock", "spinlock_t", 8, 4),
            ("i_pipe", "pipe_inode_info *", 16, 8),
            ("i_link", "void *", 16, 8),
            ("i_dir_seq", "int", 16, 4),
            ("i_locks", "spinlock_t[4]", 24, 16),
            ("i_flctx", "file_lock_context *", 48, 8),
        ]
    );
    named(&mut resolver, FILES + 256 + 8);
    assert!(resolver.take_layouts().is_empty());
    named(&mut resolver, FILES + 256 + 64);
    let more = resolver.take_layouts();
    assert_eq!((more.fields.len(), more.structs.len()), (1, 0));
}

#[test]
fn fields_of_an_inode_are_the_same_in_every_file_system() {
    let mut resolver = resolver();
    assert_eq!(named(&mut resolver, INODES + 64 + 8), "inode.i_lock");
    assert_eq!(named(&mut resolver, INODES), "shmem_inode_info.seals");
}

#[test]
fn the_name_of_an_inode_includes_its_role_as_a_directory() {
    let ram = memory();
    ram.write(INODES + 64, &0o040_755_u32.to_le_bytes()).expect("write a mode");
    let mut resolver = Resolver::new(ram, SYMBOLS);
    assert_eq!(named(&mut resolver, INODES + 64 + 8), "inode.i_lock (directory)");
    assert_eq!(named(&mut resolver, INODES + 64 + 16), "inode.i_dir_seq (directory)");
}

#[test]
fn a_pointer_shows_the_type_of_an_object_of_a_general_cache() {
    let mut resolver = resolver();
    assert_eq!(named(&mut resolver, SMALL + 192 + 80), "pipe_inode_info.head");
    assert_eq!(named(&mut resolver, SMALL + 2 * 192 + 80), "pipe_inode_info.head", "the same code");
}

#[test]
fn an_object_that_nothing_points_to_is_named_by_its_cache() {
    assert_eq!(named(&mut resolver(), SMALL + 84), "kmalloc-192+0x50");
}

#[test]
fn static_variables_are_named_by_symbol_and_names_of_tables_contain_no_offset() {
    let mut resolver = resolver();
    let mut at = |offset: u64| {
        let line = (STATIC + offset) & !63;
        let byte = 1 << (offset & 63);
        resolver.datum(&conflict(line, IMAGE + line, byte, byte)).to_string()
    };
    assert_eq!(at(0), "rename_lock");
    assert_eq!(at(12), "rename_lock+0x8");
    assert_eq!(at(0x40), "nr_shown");
    assert_eq!(at(0x1234), "__log_buf");
}

#[test]
fn a_per_cpu_variable_has_the_same_name_on_all_cpus() {
    let mut resolver = resolver();
    for area in CPU_AREAS {
        assert_eq!(named(&mut resolver, area + 64), "per-cpu runqueues.__lock");
        assert_eq!(named(&mut resolver, area + 68), "per-cpu runqueues.nr_running");
    }
}

#[test]
fn a_name_for_false_sharing_contains_the_written_data_and_the_other_data() {
    let mut resolver = resolver();
    let line = FILES + 256;
    let datum = resolver.datum(&conflict(line, DIRECT + line, 0xff00, 0xff));
    assert_eq!((datum.fields, datum.beside), (vec!["file.f_count".into()], vec!["file".into()]));
    // Side 1 writes the first byte.
    let mut both = conflict(line, DIRECT + line, 0xff00, 0xff);
    (both.sides[1].read, both.sides[1].written) = (0, 0xff);
    assert_eq!(resolver.datum(&both).to_string(), "file / file.f_count");
}

/// The name of a byte of the `struct page` that describes a page of physical memory.
fn described(resolver: &mut Resolver, physical: u64, byte: u64) -> String {
    let of_page = physical / 4096 * 64;
    let conflict = conflict(PAGES + of_page, VMEMMAP + of_page, 1 << byte, 1 << byte);
    resolver.datum(&conflict).to_string()
}

#[test]
fn the_struct_page_of_a_slab_is_named_after_struct_slab_and_the_cache() {
    assert_eq!(described(&mut resolver(), FILES, 24), "slab.slab_cache (filp)");
    assert_eq!(described(&mut resolver(), SMALL, 24), "slab.slab_cache (kmalloc-192)");
}

#[test]
fn the_name_of_a_struct_page_includes_the_use_of_the_page() {
    let ram = memory();
    let anonymous = 0x1_2345_u64;
    ram.write(PAGES + OTHER / 4096 * 64 + 24, &anonymous.to_le_bytes()).expect("write a mapping");
    let mut resolver = Resolver::new(ram, SYMBOLS);
    assert_eq!(described(&mut resolver, OTHER, 52), "page._refcount (anonymous memory)");
    // The `struct page` of the page at 0x9_0000 does not show what the page is used for. But the same code
    // also touches the `struct page` of the page at `OTHER`, so the resolver assumes that both pages have the
    // same use.
    assert_eq!(described(&mut resolver, 0x9_0000, 52), "page._refcount (anonymous memory)");
}

#[test]
fn the_name_of_a_struct_page_leaves_out_an_unknown_use() {
    assert_eq!(described(&mut resolver(), OTHER, 52), "page._refcount");
}

#[test]
fn a_page_is_named_by_the_field_that_points_to_its_struct_page() {
    assert_eq!(named(&mut resolver(), PIPE_DATA + 100), "page of pipe_inode_info.tmp_page");
    assert_eq!(named(&mut resolver(), OTHER), "page");
}

#[test]
fn a_table_that_is_allocated_at_boot_has_the_name_of_the_pointer_to_it() {
    let mut resolver = resolver();
    assert_eq!(named(&mut resolver, TABLE), "dentry_hashtable[]");
    assert_eq!(named(&mut resolver, TABLE + TABLE_BYTES - 1), "dentry_hashtable[]");
    assert_eq!(named(&mut resolver, TABLE + TABLE_BYTES), "page");
}

#[test]
fn data_after_a_struct_in_a_larger_object_are_named_after_the_struct() {
    let begin = SMALL + 3 * 192;
    assert_eq!(named(&mut resolver(), begin), "file_lock_context.flc_lock");
    assert_eq!(named(&mut resolver(), begin + 80), "what follows file_lock_context");
}

#[test]
fn missing_descriptions_are_listed_and_data_are_named_by_their_class() {
    let mut resolver = Resolver::new(memory(), "");
    let missing = resolver.missing().join("; ");
    assert!(missing.contains("kallsyms") && missing.contains("CONFIG_DEBUG_INFO_BTF"), "{missing}");
    assert_eq!(named(&mut resolver, FILES), "memory");
    let datum = resolver.datum(&conflict(0, IMAGE, 1, 1));
    assert_eq!(datum.to_string(), "static data");
}

/// Words as memory may contain them: small numbers, addresses, page-table entries and random
/// values.
fn word() -> impl Strategy<Value = u64> {
    let address = |base: u64| (0..RAM_BYTES).prop_map(move |offset| base + offset);
    prop_oneof![
        0..0x1000_u64,
        address(DIRECT),
        address(IMAGE),
        address(0xffff_ea00_0000_0000),
        (0..RAM_BYTES / 4096).prop_map(|page| page << 12 | 1),
        any::<u64>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_words_in_memory_still_get_a_name(
        changes in prop::collection::vec((0..RAM_BYTES / 8, word()), 1..400),
        // These addresses contain page tables, `struct page`, caches and slabs, where random values have the
        // greatest effect.
        more in prop::collection::vec((0x2_0000 / 8..0x5_3000_u64 / 8, word()), 1..400),
        lines in prop::collection::vec((0..RAM_BYTES / 64, word(), any::<u64>(), any::<u64>()), 1..20),
    ) {
        let ram = memory();
        for (at, value) in changes.into_iter().chain(more) {
            ram.write(8 * at, &value.to_le_bytes()).expect("write a word");
        }
        let mut resolver = Resolver::new(ram, SYMBOLS);
        for (line, address, written, read) in lines {
            let written = written | 1;
            for address in [address & !63, DIRECT + 64 * line] {
                let datum = resolver.datum(&conflict(64 * line, address, written, read));
                prop_assert!(!datum.fields.is_empty());
            }
        }
    }
}
