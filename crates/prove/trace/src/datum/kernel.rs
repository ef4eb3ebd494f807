//! A small kernel for tests, with types, symbols and memory like those of Linux.

use crate::ram::Ram;

/// Size of a test's physical memory in bytes.
pub(super) const RAM_BYTES: u64 = 1 << 20;
pub(super) const IMAGE: u64 = 0xffff_ffff_8000_0000;
pub(super) const DIRECT: u64 = 0xffff_8880_0000_0000;
pub(super) const VMEMMAP: u64 = 0xffff_ea00_0000_0000;
const PAGE: u64 = 4096;

/// This and the other addresses below are physical addresses.
const TYPES: u64 = 0x1_0000;
const TOP_TABLE: u64 = 0x2_0000;
const TABLES: [u64; 3] = [0x2_1000, 0x2_2000, 0x2_3000];
/// The array of `struct page`: 256 elements of 64 bytes.
pub(super) const PAGES: u64 = 0x3_0000;
const CACHES: u64 = 0x4_0000;
const NAMES: u64 = 0x4_8000;
/// Slabs of one page each.
pub(super) const FILES: u64 = 0x5_0000;
pub(super) const INODES: u64 = 0x5_1000;
pub(super) const SMALL: u64 = 0x5_2000;
pub(super) const CPU_AREAS: [u64; 2] = [0x6_0000, 0x6_8000];
pub(super) const STATIC: u64 = 0x7_0000;
/// A table of 1,024 pointers.
pub(super) const TABLE: u64 = 0x8_0000;
pub(super) const TABLE_BYTES: u64 = 0x2000;
/// Pages whose `struct page` does not show their use.
pub(super) const PIPE_DATA: u64 = 0x8_4000;
pub(super) const OTHER: u64 = 0x8_5000;
/// The description of a module's types, which spans two pages.
const MODULE_TYPES: u64 = 0x7_2fe0;

/// Writes types in the BPF type format.
#[derive(Default)]
pub(super) struct Types {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
    /// Size in bytes of the strings in the description that these types extend.
    strings_before: u32,
}

impl Types {
    /// Creates the types of a module for a kernel with `types` types, including `void`, and `strings`
    /// bytes of strings.
    pub(super) fn after(types: u32, strings: u32) -> Types {
        Types { count: types - 1, strings_before: strings, ..Types::default() }
    }

    fn push(
        &mut self,
        name: &str,
        kind: u32,
        count: usize,
        size_or_type: u32,
        more: &[u32],
    ) -> u32 {
        let name = self.string(name);
        for word in [name, kind << 24 | count as u32, size_or_type].iter().chain(more) {
            self.types.extend(word.to_le_bytes());
        }
        self.count += 1;
        self.count
    }

    fn string(&mut self, text: &str) -> u32 {
        if self.strings.is_empty() {
            self.strings.push(0);
        }
        if text.is_empty() {
            return 0;
        }
        let at = self.strings_before + self.strings.len() as u32;
        self.strings.extend(text.bytes());
        self.strings.push(0);
        at
    }

    pub(super) fn int(&mut self, bytes: u32) -> u32 {
        self.push("int", 1, 0, bytes, &[0])
    }

    pub(super) fn pointer(&mut self, to: u32) -> u32 {
        self.push("", 2, 0, to, &[])
    }

    pub(super) fn array(&mut self, element: u32, count: u32) -> u32 {
        self.push("", 3, 0, 0, &[element, 0, count])
    }

    pub(super) fn typedef(&mut self, name: &str, of: u32) -> u32 {
        self.push(name, 8, 0, of, &[])
    }

    pub(super) fn of_struct(&mut self, name: &str, bytes: u32, fields: &[(&str, u32, u32)]) -> u32 {
        self.composite(4, name, bytes, fields)
    }

    pub(super) fn of_union(&mut self, name: &str, bytes: u32, fields: &[(&str, u32, u32)]) -> u32 {
        self.composite(5, name, bytes, fields)
    }

    /// Adds a struct or union. Each field consists of a name, a type and an offset.
    fn composite(&mut self, kind: u32, name: &str, bytes: u32, fields: &[(&str, u32, u32)]) -> u32 {
        let mut more = Vec::new();
        for &(name, of, offset) in fields {
            more.extend([self.string(name), of, 8 * offset]);
        }
        self.push(name, kind, fields.len(), bytes, &more)
    }

    pub(super) fn enumeration(&mut self, name: &str, value: u32) {
        let more = [self.string(name), value];
        self.push("", 6, 1, 4, &more);
    }

    pub(super) fn section(&mut self, name: &str, variables: &[(&str, u32, u32)]) {
        let mut more = Vec::new();
        for &(name, of, offset) in variables {
            let variable = self.push(name, 14, 0, of, &[1]);
            more.extend([variable, offset, 0]);
        }
        self.push(name, 15, variables.len(), 0, &more);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types, types, strings] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.types);
        bytes.extend(self.strings);
        bytes
    }
}

/// Structs of Linux 6.1, without the fields that no test needs.
pub(super) fn types() -> Types {
    let mut types = Types::default();
    let (half, word) = (types.int(4), types.int(8));
    let address = types.pointer(0);
    let lock = types.of_struct("spinlock", 4, &[("rlock", half, 0)]);
    let lock = types.typedef("spinlock_t", lock);
    types.enumeration("PG_slab", 9);
    let cached = types.of_struct("", 32, &[("lru", word, 0), ("mapping", word, 16)]);
    let tail = types.of_struct("", 8, &[("compound_head", word, 0)]);
    let uses = types.of_union("", 40, &[("", cached, 0), ("", tail, 0)]);
    let fields =
        [("flags", word, 0), ("", uses, 8), ("page_type", half, 48), ("_refcount", half, 52)];
    let page = types.of_struct("page", 64, &fields);
    let page = types.pointer(page);
    types.of_struct("slab", 64, &[("__page_flags", word, 0), ("slab_cache", word, 24)]);
    let fields = [("size", half, 24), ("object_size", half, 28), ("red_left_pad", half, 88)];
    let name = [("name", address, 96)];
    types.of_struct("kmem_cache", 128, &[&fields[..], &name].concat());
    let buffer = types.of_struct("pipe_buffer", 40, &[("page", address, 0), ("len", half, 12)]);
    let buffers = types.pointer(buffer);
    let fields = [("mutex", lock, 0), ("head", half, 80), ("tmp_page", page, 96)];
    let pipe = [&fields[..], &[("bufs", buffers, 152)]].concat();
    let pipe = types.of_struct("pipe_inode_info", 160, &pipe);
    let pipe = types.pointer(pipe);
    let file = types.pointer(0);
    let fields = [("i_pipe", pipe, 0), ("i_link", file, 0), ("i_dir_seq", half, 0)];
    let special = types.of_union("", 8, &fields);
    let lists = types.array(lock, 4);
    let locks = types.of_struct("file_lock_context", 16, &[("flc_lock", lock, 0)]);
    let locks = types.pointer(locks);
    let fields =
        [("i_mode", half, 0), ("i_lock", lock, 8), ("", special, 16), ("i_locks", lists, 24)];
    let fields = [&fields[..], &[("i_flctx", locks, 48)]].concat();
    let inode = types.of_struct("inode", 64, &fields);
    types.of_struct("shmem_inode_info", 128, &[("seals", half, 0), ("vfs_inode", inode, 64)]);
    types.of_struct("task_struct", 512, &[("flags", half, 0)]);
    types.of_struct("file", 256, &[("f_count", word, 8), ("f_pos", word, 64)]);
    let queue = types.of_struct("rq", 128, &[("__lock", lock, 0), ("nr_running", half, 4)]);
    types.section(".data..percpu", &[("runqueues", queue, 64)]);
    types.of_struct("btf", 16, &[("data", address, 0), ("data_size", half, 8)]);
    types.of_struct("btf_module", 24, &[("list", word, 0), ("btf", address, 16)]);
    types
}

/// The types that a module adds.
fn module_types() -> Vec<u8> {
    let kernel = types();
    let mut types = Types::after(kernel.count + 1, kernel.strings.len() as u32);
    let word = types.int(8);
    types.of_struct("xfs_inode", 80, &[("i_flags", word, 72)]);
    types.finish()
}

pub(super) const SYMBOLS: &str = "\
0000000000000000 A __per_cpu_start
0000000000000040 A runqueues
0000000000001000 A __per_cpu_end
ffffffff80010000 R __start_BTF
ffffffff80014000 R __stop_BTF
ffffffff80020000 D init_top_pgt
ffffffff80070000 D rename_lock
ffffffff80070040 d nr_shown.3
ffffffff80070080 D __per_cpu_offset
ffffffff800700c0 d btf_modules
ffffffff80070100 D nr_cpu_ids
ffffffff80070110 d dentry_hashtable
ffffffff80070118 d d_hash_shift
ffffffff80070140 B __log_buf
ffffffff80074000 B _end
";

/// Memory with three slabs: one of files, one of a file system's inodes, and one of kmalloc-192.
pub(super) fn memory() -> Ram {
    let ram = Ram::new("knee-test", RAM_BYTES).expect("make memory");
    ram.write(TYPES, &types().finish()).expect("write types");
    let word = |at: u64, value: u64| ram.write(at, &value.to_le_bytes()).expect("write a word");
    // Page tables that map the array of `struct page`.
    let mut table = TOP_TABLE;
    for (next, shift) in TABLES.into_iter().zip([39, 30, 21]) {
        word(table + 8 * (VMEMMAP >> shift & 0x1ff), next | 1);
        table = next;
    }
    for page in 0..4 {
        word(table + 8 * page, (PAGES + page * PAGE) | 1);
    }
    let caches = [
        (FILES, "filp", 256_u32, 256_u32),
        (INODES, "shmem_inode_cache", 128, 128),
        (SMALL, "kmalloc-192", 192, 192),
    ];
    for (nr, (slab, name, size, object)) in (0..).zip(caches) {
        let (cache, at) = (CACHES + 128 * nr, NAMES + 32 * nr);
        ram.write(at, name.as_bytes()).expect("write a name");
        word(cache + 24, u64::from(object) << 32 | u64::from(size));
        word(cache + 96, DIRECT + at);
        let page = PAGES + slab / PAGE * 64;
        word(page, 1 << 9);
        word(page + 24, DIRECT + cache);
    }
    for (cpu, area) in (0..).zip(CPU_AREAS) {
        word(STATIC + 0x80 + 8 * cpu, DIRECT + area);
    }
    word(STATIC + 0x100, 2);
    word(STATIC + 0x110, DIRECT + TABLE);
    word(STATIC + 0x118, 32 - 10);
    // A circular list that consists of a head and one `struct btf_module`, which points to a `struct btf`.
    let (head, module, described) = (STATIC + 0xc0, STATIC + 0x1a0, STATIC + 0x1c0);
    let module_types = module_types();
    for (at, value) in [
        (head, DIRECT + module),
        (module, IMAGE + head),
        (module + 16, DIRECT + described),
        (described, DIRECT + MODULE_TYPES),
        (described + 8, module_types.len() as u64),
    ] {
        word(at, value);
    }
    ram.write(MODULE_TYPES, &module_types).expect("write types of a module");
    // The second inode points to a pipe, which is the second object of the slab of kmalloc-192.
    word(INODES + 128 + 64 + 16, DIRECT + SMALL + 192);
    word(SMALL + 192 + 96, VMEMMAP + PIPE_DATA / PAGE * 64);
    // The first inode points to its `file_lock_context`, which is the fourth object of the slab of
    // kmalloc-192.
    word(INODES + 64 + 48, DIRECT + SMALL + 3 * 192);
    ram
}
