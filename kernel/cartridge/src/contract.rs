//! The contract's functions as text, and component types rendered the same way,
//! so that a function is compared with one string and a refusal can show both.
//! Aliases and type names do not matter, structure and field names do.

use wasmparser::component_types::{
    ComponentAnyTypeId, ComponentDefinedType, ComponentEntityType, ComponentFuncTypeId,
    ComponentInstanceTypeId, ComponentValType,
};
use wasmparser::types::TypesRef;

macro_rules! view_error {
    () => {
        "variant{unavailable(string),invalid-argument(string),limit-exceeded(string)}"
    };
}
macro_rules! candidates {
    () => {
        concat!(
            "result<list<record{ref:u32,content:string}>,",
            view_error!(),
            ">"
        )
    };
}
macro_rules! scored {
    () => {
        concat!(
            "result<list<record{ref:u32,content:string,score:f64}>,",
            view_error!(),
            ">"
        )
    };
}

/// The functions of `scoped-view`.
pub(crate) const VIEW_FUNCTIONS: &[(&str, &str)] = &[
    ("namespace", "func()->string"),
    ("candidates", concat!("func(limit:u32)->", candidates!())),
    (
        "lexical-candidates",
        concat!("func(query:string,limit:u32)->", candidates!()),
    ),
    (
        "vector-search",
        concat!("func(embedding:list<f32>,k:u32)->", scored!()),
    ),
    (
        "embed",
        concat!(
            "func(texts:list<string>)->result<list<list<f32>>,",
            view_error!(),
            ">"
        ),
    ),
    ("concepts", concat!("func(query:string,k:u32)->", scored!())),
    (
        "entity-facts",
        concat!(
            "func(mention:string,hops:u8)->result<list<record{ref:u32,content:string,entity:string}>,",
            view_error!(),
            ">"
        ),
    ),
];

/// The functions of `retriever`.
pub(crate) const RETRIEVER_FUNCTIONS: &[(&str, &str)] = &[
    ("capabilities", "func()->record{graph:bool,streaming:bool}"),
    (
        "plan",
        "func(query:record{text:string,token-budget:u32,k:u32})\
         ->result<list<record{ref:u32,score:f64}>,variant{unavailable(string),other(string)}>",
    ),
];

/// No function of the contract is longer. A type can be written so that its text
/// grows exponentially with its bytes, so rendering stops here.
const MAX_LENGTH: usize = 512;

/// What an instance type offers that is not a plain type, by name.
pub(crate) enum Item {
    /// A function, rendered.
    Func(String),
    /// Anything else but a value type: a resource, an instance, a module.
    Foreign(&'static str),
}

/// The functions and other non-type items of an instance type, in its order.
pub(crate) fn items(types: TypesRef<'_>, id: ComponentInstanceTypeId) -> Vec<(String, Item)> {
    let describe = |ty: &ComponentEntityType| match ty {
        ComponentEntityType::Func(f) => Some(Item::Func(Text::of(types, *f))),
        ComponentEntityType::Type {
            referenced: ComponentAnyTypeId::Defined(_),
            ..
        } => None,
        ComponentEntityType::Type { .. } => Some(Item::Foreign("a resource or interface type")),
        other => Some(Item::Foreign(kind(other))),
    };
    let exports = types[id].exports.iter();
    exports
        .filter_map(|(name, item)| Some((name.clone(), describe(&item.ty)?)))
        .collect()
}

/// The sort of an import, in words.
pub(crate) fn kind(ty: &ComponentEntityType) -> &'static str {
    match ty {
        ComponentEntityType::Module(_) => "a core module",
        ComponentEntityType::Func(_) => "a function",
        ComponentEntityType::Value(_) => "a value",
        ComponentEntityType::Type { .. } => "a type",
        ComponentEntityType::Instance(_) => "an instance",
        ComponentEntityType::Component(_) => "a component",
    }
}

/// A function type being written down.
struct Text<'a> {
    types: TypesRef<'a>,
    out: String,
}

impl<'a> Text<'a> {
    fn of(types: TypesRef<'a>, id: ComponentFuncTypeId) -> String {
        let out = String::new();
        let mut text = Self { types, out };
        let ty = &types[id];
        text.put(if ty.async_ { "async func(" } else { "func(" });
        text.each(ty.params.iter(), |text, (name, ty)| {
            text.put(name);
            text.put(":");
            text.value(ty);
        });
        text.put(")");
        if let Some(ty) = &ty.result {
            text.put("->");
            text.value(ty);
        }
        text.out
    }

    fn full(&self) -> bool {
        self.out.len() > MAX_LENGTH
    }

    fn put(&mut self, piece: &str) {
        if self.full() {
            return;
        }
        self.out.push_str(piece);
        if self.full() {
            let end = self.out.floor_char_boundary(MAX_LENGTH);
            self.out.truncate(end);
            self.out.push('…');
        }
    }

    fn each<T>(&mut self, all: impl Iterator<Item = T>, one: impl Fn(&mut Self, T)) {
        for (i, item) in all.enumerate() {
            if self.full() {
                return;
            }
            if i > 0 {
                self.put(",");
            }
            one(self, item);
        }
    }

    fn value(&mut self, ty: &ComponentValType) {
        match ty {
            ComponentValType::Primitive(primitive) => self.put(&primitive.to_string()),
            ComponentValType::Type(_) if self.full() => {}
            ComponentValType::Type(id) => {
                let types = self.types;
                self.defined(&types[*id]);
            }
        }
    }

    fn optional(&mut self, ty: Option<&ComponentValType>) {
        match ty {
            Some(ty) => self.value(ty),
            None => self.put("_"),
        }
    }

    fn defined(&mut self, ty: &ComponentDefinedType) {
        match ty {
            ComponentDefinedType::Primitive(primitive) => self.put(&primitive.to_string()),
            ComponentDefinedType::Record(record) => {
                self.put("record{");
                self.each(record.fields.iter(), |text, (name, ty)| {
                    text.put(name);
                    text.put(":");
                    text.value(ty);
                });
                self.put("}");
            }
            ComponentDefinedType::Variant(variant) => {
                self.put("variant{");
                self.each(variant.cases.iter(), |text, (name, case)| {
                    text.put(name);
                    if let Some(ty) = &case.ty {
                        text.put("(");
                        text.value(ty);
                        text.put(")");
                    }
                });
                self.put("}");
            }
            ComponentDefinedType::List { element, .. } => self.wrapped("list", element),
            ComponentDefinedType::Option { ty, .. } => self.wrapped("option", ty),
            ComponentDefinedType::Result { ok, err, .. } => {
                self.put("result<");
                self.optional(ok.as_ref());
                self.put(",");
                self.optional(err.as_ref());
                self.put(">");
            }
            other => self.put(unknown(other)),
        }
    }

    fn wrapped(&mut self, name: &str, ty: &ComponentValType) {
        self.put(name);
        self.put("<");
        self.value(ty);
        self.put(">");
    }
}

/// The contract has none of these: their insides do not matter.
fn unknown(ty: &ComponentDefinedType) -> &'static str {
    match ty {
        ComponentDefinedType::Map { .. } => "map<…>",
        ComponentDefinedType::FixedLengthList { .. } => "fixed-length-list<…>",
        ComponentDefinedType::Tuple(_) => "tuple<…>",
        ComponentDefinedType::Flags(_) => "flags{…}",
        ComponentDefinedType::Enum(_) => "enum{…}",
        ComponentDefinedType::Own(_) => "own<…>",
        ComponentDefinedType::Borrow(_) => "borrow<…>",
        ComponentDefinedType::Future { .. } => "future<…>",
        ComponentDefinedType::Stream { .. } => "stream<…>",
        _ => "…",
    }
}
