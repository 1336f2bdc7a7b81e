//! Finds the places of a source file that can be mutated, and the mutations of each.
//!
//! Only changes that mostly compile: operators, negations, guards, arms before a wildcard, and bodies of functions whose return type
//! has an obvious value. Tests, constants and the arguments of macros are left alone.

use std::ops::Range;

use anyhow::{Context as _, Result};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{
    Arm, BinOp, Expr, ExprBinary, ExprMatch, ExprUnary, ImplItemFn, ItemFn, ItemMod, Pat, ReturnType, UnOp,
};

/// A part of a file, in bytes.
pub(super) type Part = Range<usize>;

/// What can be changed about a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// `left op right`, with other operators.
    Operator { left: Part, right: Part, op: Part, others: Vec<&'static str> },
    /// A boolean expression that is negated.
    Negation,
    /// The start of a function's body, with values that it returns at once.
    Body(Vec<String>),
    /// The end of the pattern of an arm, which no longer matches.
    Arm,
    /// A guard that is always true, or always false.
    Guard,
}

/// A part that can be mutated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) part: Part,
    pub(super) change: Change,
    /// The name of the function.
    pub(super) function: String,
}

/// Returns the places of a file, in the order of the text.
pub(super) fn places(text: &str) -> Result<Vec<Place>> {
    let file = syn::parse_file(text).context("not Rust")?;
    let mut finder = Finder::default();
    finder.visit_file(&file);
    Ok(finder.places)
}

#[derive(Debug, Default)]
struct Finder {
    places: Vec<Place>,
    function: String,
}

impl Finder {
    fn add(&mut self, part: Part, change: Change) {
        self.places.push(Place { part, change, function: self.function.clone() });
    }

    /// Visits a function with its mutations, unless it is a test or evaluated by the compiler.
    fn function(&mut self, attrs: &[syn::Attribute], sig: &syn::Signature, block: &syn::Block) {
        if sig.constness.is_some() || attrs.iter().any(is_test) {
            return;
        }
        let outer = std::mem::replace(&mut self.function, sig.ident.to_string());
        let values = values(&sig.output);
        if !values.is_empty() && !block.stmts.is_empty() {
            let start = block.brace_token.span.open().byte_range().end;
            self.add(start..start, Change::Body(values));
        }
        visit::visit_block(self, block);
        self.function = outer;
    }
}

fn is_test(attribute: &syn::Attribute) -> bool {
    let is_cfg = attribute.path().is_ident("cfg")
        && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test");
    is_cfg || attribute.path().segments.last().is_some_and(|name| name.ident == "test")
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }

    // What the compiler evaluates cannot be switched at run time.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_expr_binary(&mut self, expr: &'ast ExprBinary) {
        let others = others(&expr.op);
        let has_let = |expr: &Expr| contains_let(expr);
        if !others.is_empty() && !has_let(&expr.left) && !has_let(&expr.right) {
            let [left, right, op] =
                [expr.left.span(), expr.right.span(), expr.op.span()].map(|span| span.byte_range());
            self.add(expr.span().byte_range(), Change::Operator { left, right, op, others });
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast ExprUnary) {
        if matches!(expr.op, UnOp::Not(_)) {
            self.add(expr.span().byte_range(), Change::Negation);
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_match(&mut self, expr: &'ast ExprMatch) {
        let has_rest = expr.arms.last().is_some_and(|arm| takes_all(&arm.pat));
        let count = expr.arms.len();
        for Arm { pat, guard, .. } in expr.arms.iter().take(count.saturating_sub(1)) {
            match guard {
                Some((_, guard)) if !contains_let(guard) => {
                    self.add(guard.span().byte_range(), Change::Guard);
                }
                None if has_rest => {
                    let end = pat.span().byte_range().end;
                    self.add(end..end, Change::Arm);
                }
                _ => {}
            }
        }
        visit::visit_expr_match(self, expr);
    }
}

/// Returns `true` for `_`, and for a name that is no constant.
fn takes_all(pat: &Pat) -> bool {
    match pat {
        Pat::Wild(_) => true,
        Pat::Ident(name) => name.ident.to_string().starts_with(char::is_lowercase),
        _ => false,
    }
}

/// Returns `true` for a condition with `let`, which stands in no parentheses.
fn contains_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => contains_let(&binary.left) || contains_let(&binary.right),
        _ => false,
    }
}

/// Returns the operators that replace one.
fn others(op: &BinOp) -> Vec<&'static str> {
    match op {
        BinOp::Eq(_) => vec!["!="],
        BinOp::Ne(_) => vec!["=="],
        BinOp::Lt(_) => vec!["<=", ">"],
        BinOp::Le(_) => vec!["<", ">"],
        BinOp::Gt(_) => vec![">=", "<"],
        BinOp::Ge(_) => vec![">", "<"],
        BinOp::And(_) => vec!["||"],
        BinOp::Or(_) => vec!["&&"],
        BinOp::Add(_) => vec!["-", "*"],
        BinOp::Sub(_) => vec!["+"],
        BinOp::Mul(_) => vec!["+", "/"],
        BinOp::Div(_) => vec!["*"],
        BinOp::Rem(_) => vec!["/"],
        BinOp::AddAssign(_) => vec!["-="],
        BinOp::SubAssign(_) => vec!["+="],
        _ => Vec::new(),
    }
}

/// Returns values of a return type that need no knowledge of the type.
fn values(output: &ReturnType) -> Vec<String> {
    let ReturnType::Type(_, of) = output else { return vec![String::new()] };
    let syn::Type::Path(path) = &**of else {
        let is_str = matches!(&**of, syn::Type::Reference(of) if matches!(&*of.elem, syn::Type::Path(path) if path.path.is_ident("str")));
        return if is_str { vec!["\"\"".to_owned()] } else { Vec::new() };
    };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    let inner = || match &last.arguments {
        syn::PathArguments::AngleBracketed(arguments) => {
            arguments.args.first().and_then(|first| match first {
                syn::GenericArgument::Type(of) => Some(of.clone()),
                _ => None,
            })
        }
        _ => None,
    };
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
    match last.ident.to_string().as_str() {
        "bool" => texts(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" | "i32" => texts(&["0", "1"]),
        "String" => texts(&["String::new()"]),
        "Option" => texts(&["None"]),
        "Vec" => texts(&["Vec::new()"]),
        "Result" => match inner() {
            None => texts(&["Ok(())"]),
            Some(syn::Type::Tuple(of)) if of.elems.is_empty() => texts(&["Ok(())"]),
            Some(of) => {
                let of = ReturnType::Type(syn::token::RArrow::default(), Box::new(of));
                values(&of).into_iter().map(|value| format!("Ok({value})")).collect()
            }
        },
        _ => Vec::new(),
    }
}
