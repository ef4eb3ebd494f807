//! The graph of imports between the files of a crate.
//!
//! A file imports from the file that *defines* the item that its product code names, whatever the
//! path leads through: re-exports are followed. So a parent that declares and re-exports a child does
//! not import from it; a parent that uses an item of the child in its own code does. Naming a module
//! is not an import, naming an item in it is. Nor is calling a method, whose `impl` block can stand in
//! any file.
//!
//! Of a macro call and of an attribute, the paths in the tokens count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, Token, UseTree, Visibility};

/// For each file, those that it imports from. Paths are relative to the folder of the crate's root.
pub(crate) type Graph = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// The imports of the crate with this root, a `lib.rs` or `main.rs`. `read` returns the text of a
/// file, if there is one.
pub(crate) fn imports(root: &str, read: impl Fn(&Path) -> Option<String>) -> Graph {
    let mut modules = Modules::default();
    let text = read(Path::new(root)).unwrap_or_else(|| panic!("no {root}"));
    let place = Place { module: Vec::new(), file: PathBuf::from(root), folder: PathBuf::new() };
    modules.add_file(place, &text, &read);
    modules.graph()
}

/// Path of a module in its crate; the root has none.
type ModulePath = Vec<String>;

#[derive(Default)]
struct Module {
    file: PathBuf,
    /// What it defines.
    items: BTreeSet<String>,
    uses: Vec<Use>,
    /// The paths that its code names.
    mentions: Vec<Vec<String>>,
    /// Names that a pattern binds. Alone they are local variables, whatever else has the name.
    locals: BTreeSet<String>,
}

/// A leaf of a `use` declaration.
struct Use {
    path: Vec<String>,
    /// The name that it brings; `None` for `*`.
    name: Option<String>,
    is_re_export: bool,
}

/// Where a module stands, and where the files of its children are.
struct Place {
    module: ModulePath,
    file: PathBuf,
    folder: PathBuf,
}

/// What a path leads to.
enum Target {
    Module(ModulePath),
    /// The file that defines the item.
    Item(PathBuf),
}

/// What the end of a path is if both are there: an item and a module can have the same name.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Module,
    Item,
}

/// A path may lead through this many `use` declarations. More is a circle of re-exports.
const MAX_USES: u32 = 8;

#[derive(Default)]
struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    fn add_file(&mut self, place: Place, text: &str, read: &impl Fn(&Path) -> Option<String>) {
        let file = syn::parse_file(text)
            .unwrap_or_else(|error| panic!("{}: {error}", place.file.display()));
        self.add(place, &file.items, read);
    }

    fn add(&mut self, place: Place, items: &[Item], read: &impl Fn(&Path) -> Option<String>) {
        let mut module = Module { file: place.file.clone(), ..Module::default() };
        for item in items {
            match item {
                Item::Mod(child) if is_test(&child.attrs) => {}
                Item::Mod(child) => {
                    let name = child.ident.to_string();
                    let folder = place.folder.join(&name);
                    let path = [&place.module[..], &[name]].concat();
                    match &child.content {
                        Some((_, items)) => {
                            let file = place.file.clone();
                            self.add(Place { module: path, file, folder }, items, read);
                        }
                        None => {
                            let files = [folder.with_extension("rs"), folder.join("mod.rs")];
                            let found = files.into_iter().find_map(|f| Some((read(&f)?, f)));
                            let (text, file) = found.unwrap_or_else(|| {
                                panic!("no file of module {}", folder.display())
                            });
                            self.add_file(Place { module: path, file, folder }, &text, read);
                        }
                    }
                }
                other => {
                    module.items.extend(name(other));
                    module.visit_item(other);
                }
            }
        }
        self.0.insert(place.module, module);
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for (path, module) in &self.0 {
            let used = module.uses.iter().filter(|one| !one.is_re_export && one.name.is_some());
            // A `use` of what is a module and an item is one of the module: code names the item.
            let used = used.map(|one| (&one.path, End::Module));
            let mentioned = module.mentions.iter().filter(|mention| !module.is_local(mention));
            let mentioned = mentioned.map(|mention| (mention, End::Item));
            let files = graph.entry(module.file.clone()).or_default();
            for (name, end) in used.chain(mentioned) {
                if let Some(Target::Item(file)) = self.resolve(path, name, end, MAX_USES)
                    && file != module.file
                {
                    files.insert(file);
                }
            }
        }
        graph
    }

    /// What `path` leads to when it stands in the module `from`; `None` for another crate, a local
    /// variable, or a name of the language.
    fn resolve(&self, from: &[String], path: &[String], end: End, uses: u32) -> Option<Target> {
        let mut target = Target::Module(from.to_vec());
        for (nr, segment) in path.iter().enumerate() {
            let Target::Module(module) = &target else { return Some(target) };
            target = match segment.as_str() {
                "crate" => Target::Module(Vec::new()),
                "self" => continue,
                "super" => Target::Module(module.split_last()?.1.to_vec()),
                name if nr + 1 == path.len() => self.look_up(module, name, end, uses)?,
                name => self.look_up(module, name, End::Module, uses)?,
            };
        }
        Some(target)
    }

    /// What `name` means in a module.
    fn look_up(&self, path: &[String], name: &str, end: End, uses: u32) -> Option<Target> {
        let uses = uses.checked_sub(1)?;
        let module = self.0.get(path)?;
        let child = [path, &[name.to_owned()]].concat();
        let mut found = Vec::new();
        if module.items.contains(name) {
            found.push(Target::Item(module.file.clone()));
        }
        if self.0.contains_key(&child) {
            found.push(Target::Module(child));
        }
        for one in module.uses.iter().filter(|one| one.name.as_deref() == Some(name)) {
            found.extend(self.resolve(path, &one.path, end, uses));
        }
        for glob in module.uses.iter().filter(|one| one.name.is_none()) {
            if let Some(Target::Module(all)) = self.resolve(path, &glob.path, End::Module, uses) {
                found.extend(self.look_up(&all, name, end, uses));
            }
        }
        let is_wanted = |target: &Target| matches!(target, Target::Item(_)) == (end == End::Item);
        let best = found.iter().position(is_wanted);
        (!found.is_empty()).then(|| found.swap_remove(best.unwrap_or(0)))
    }
}

/// The name that an item defines.
fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Whether an item is compiled for tests only: `cfg(test)`, also with more conditions, and builds for the
/// model checkers loom and shuttle.
fn is_test(attributes: &[Attribute]) -> bool {
    fn requires_test(condition: &Meta) -> bool {
        let all = condition.require_list().ok().filter(|list| list.path.is_ident("all"));
        let all = all.and_then(|list| {
            list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()
        });
        let is_test = |name| condition.path().is_ident(name);
        ["test", "loom", "shuttle"].into_iter().any(is_test)
            || all.is_some_and(|all| all.iter().any(requires_test))
    }
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args().is_ok_and(|condition: Meta| requires_test(&condition))
    })
}

impl Module {
    fn is_local(&self, path: &[String]) -> bool {
        path.len() == 1 && self.locals.contains(&path[0])
    }

    fn add_use(&mut self, tree: &UseTree, before: &[String], is_re_export: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.add_use(&path.tree, &with(&path.ident), is_re_export),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_use(tree, before, is_re_export));
            }
            UseTree::Glob(_) => {
                self.uses.push(Use { path: before.to_vec(), name: None, is_re_export });
            }
            UseTree::Name(leaf) => {
                let path = with(&leaf.ident);
                let name = path.iter().rfind(|name| *name != "self").cloned();
                self.uses.push(Use { path, name, is_re_export });
            }
            UseTree::Rename(leaf) => {
                let name = Some(leaf.rename.to_string());
                self.uses.push(Use { path: with(&leaf.ident), name, is_re_export });
            }
        }
    }

    /// Collects the paths in tokens that are not parsed. Strings have none.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut punctuation = String::new();
        for tree in tokens {
            if let TokenTree::Punct(punct) = &tree {
                punctuation.push(punct.as_char());
                continue;
            }
            if punctuation != "::" && !path.is_empty() {
                self.mentions.push(std::mem::take(&mut path));
            }
            match tree {
                // A field or a method has no path.
                TokenTree::Ident(ident) if punctuation != "." => path.push(ident.to_string()),
                TokenTree::Group(group) => self.add_tokens(group.stream()),
                _ => {}
            }
            punctuation.clear();
        }
        if !path.is_empty() {
            self.mentions.push(path);
        }
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) && item.leading_colon.is_none() {
            let is_re_export = !matches!(item.vis, Visibility::Inherited);
            self.add_use(&item.tree, &[], is_re_export);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.mentions.push(path.segments.iter().map(|one| one.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.locals.insert(pattern.ident.to_string());
        visit::visit_pat_ident(self, pattern);
    }

    /// `pub(in crate::a)` uses nothing of `a`.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        visit::visit_macro(self, call);
        self.add_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        visit::visit_attribute(self, attribute);
        if let syn::Meta::List(list) = &attribute.meta {
            self.add_tokens(list.tokens.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circles::{circles, shown};

    /// The circles of a crate of these files, the first of which is the root.
    fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
        let read = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        circles(&imports(files[0].0, read)).iter().map(|circle| shown(circle)).collect()
    }

    #[test]
    fn a_circle_is_found_however_the_path_is_written() {
        let a = "pub struct A; fn f(_: crate::b::B) {}";
        for b in [
            "use crate::a::A; pub struct B;",
            "use super::{a::{self as other, A as Other}}; pub struct B;",
            "use super::a; pub struct B(a::A);",
            "use super::a::*; pub struct B(A);",
            "use super::A; pub struct B;",
            "pub struct B; fn f() { vec![B, super::a::A]; }",
            "pub struct B; #[arg(value_parser = crate::a::A)] fn f() {}",
        ] {
            let root = "mod a; mod b; pub use a::A;";
            let found = circles_of(&[("lib.rs", root), ("a.rs", a), ("b.rs", b)]);
            assert_eq!(found, ["a.rs → b.rs → a.rs"], "{b}");
        }
    }

    #[test]
    fn a_circle_of_three_is_shown_once_and_in_order() {
        let found = circles_of(&[
            ("main.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::c::C; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
            ("c.rs", "use crate::b::B; pub struct C;"),
        ]);
        assert_eq!(found, ["a.rs → c.rs → b.rs → a.rs"]);
    }

    #[test]
    fn a_parent_that_only_re_exports_its_child_does_not_import_from_it() {
        let child = "use super::P; pub struct C;";
        let of =
            |parent| circles_of(&[("lib.rs", "mod p;"), ("p/mod.rs", parent), ("p/c.rs", child)]);
        assert!(of("mod c; pub use c::C; pub struct P;").is_empty());
        assert!(of("mod c; pub use c::*; pub struct P;").is_empty());
        let circle = ["p/c.rs → p/mod.rs → p/c.rs"];
        assert_eq!(of("mod c; use c::C; pub struct P;"), circle);
        assert_eq!(of("mod c; pub use c::C; pub struct P(C);"), circle);
        assert_eq!(of("mod c; pub struct P; fn f() { c::C; }"), circle);
    }

    #[test]
    fn siblings_may_import_through_their_parent() {
        let found = circles_of(&[
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::*;"),
            ("a.rs", "pub struct A;"),
            ("b.rs", "use crate::A; pub struct B;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn tests_other_crates_methods_and_scopes_are_no_imports() {
        let found = circles_of(&[
            ("lib.rs", "mod a; mod b; pub use a::f; #[cfg(test)] mod missing;"),
            ("a.rs", "use crate::b::B; pub struct A; pub(in crate::b) fn f() { b.b() }"),
            (
                "b.rs",
                "use super::*; use std::a::A; pub struct B;
                fn g(a: usize, f: usize) { vec![a.a, a.f(), f] }
                /// As crate::a::A.
                impl B { #[cfg(test)] fn h(_: crate::a::A) {} }
                #[cfg(test)] fn i() { crate::a::f(); }
                #[cfg(test)] mod tests { use crate::a::A; }
                #[cfg(all(test, not(loom)))] mod models { use crate::a::A; }",
            ),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn an_item_and_a_module_may_share_a_name() {
        let found = circles_of(&[
            ("lib.rs", "mod a; mod b; pub use b::B; pub fn a() -> a::A {}"),
            ("a.rs", "use crate::{a, b::b}; pub struct A; fn f(b: u8) { a::f(b) }"),
            ("b.rs", "pub mod c; pub use c::b; pub struct B; pub fn f() { crate::b::c::f() }"),
            ("b/c.rs", "pub fn b() {} pub fn f() {}"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
