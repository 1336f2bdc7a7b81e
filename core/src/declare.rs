//! Macros that declare settings and their `Debug`, for the crates of this workspace.

/// Declares a struct with the default of each field behind its type. A field without one gets the default of its type.
///
/// ```
/// aqueduct_core::with_defaults! {
///     /// Limits of a reader.
///     #[derive(Debug, PartialEq)]
///     pub struct Limits {
///         /// Bytes of one line.
///         pub line: usize = 1024,
///         /// The prefix of all lines.
///         pub prefix: String,
///     }
/// }
/// assert_eq!(Limits::default(), Limits { line: 1024, prefix: String::new() });
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! with_defaults {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $( $(#[$about:meta])* $shown:vis $field:ident: $type:ty $(= $default:expr)?, )+
        }
    )+) => {$(
        $(#[$attribute])*
        $visibility struct $name {
            $( $(#[$about])* $shown $field: $type, )+
        }

        impl ::core::default::Default for $name {
            fn default() -> Self {
                Self { $( $field: $crate::with_defaults!(@default $($default)?), )+ }
            }
        }
    )+};
    (@default $default:expr) => { $default };
    (@default) => { ::core::default::Default::default() };
}

/// Implements methods that set the field of their argument and return the changed value.
///
/// ```
/// #[derive(Default)]
/// pub struct Limits {
///     line: usize,
/// }
/// aqueduct_core::setters! {
///     impl Limits {
///         /// Sets the bytes of one line.
///         pub fn with_line(line: usize);
///     }
/// }
/// assert_eq!(Limits::default().with_line(9).line, 9);
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    (impl $name:ident {
        $( $(#[$about:meta])* $shown:vis fn $method:ident($field:ident: $type:ty); )+
    }) => {
        impl $name {
            $(
                $(#[$about])*
                $shown fn $method(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}

/// Implements `Debug` for a type with fields that cannot be shown, or must not be: prints the named ones only. A name
/// may stand for a part of a field, or the result of a method.
///
/// ```
/// struct Reader {
///     open: bool,
///     lines: Vec<String>,
///     read: Box<dyn Fn() -> String>,
/// }
/// aqueduct_core::debug_fields!(Reader { open, lines: lines.len() });
/// let reader = Reader { open: true, lines: Vec::new(), read: Box::new(String::new) };
/// assert_eq!(format!("{reader:?}"), "Reader { open: true, lines: 0, .. }");
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! debug_fields {
    ($type:ident { $( $name:ident $(: $($part:ident $(($($none:tt)*))?).+)? ),* }) => {
        impl ::core::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(
                        stringify!($name),
                        &$crate::debug_fields!(@value self.$name $(=> self.$($part $(($($none)*))?).+)?),
                    ))*
                    .finish_non_exhaustive()
            }
        }
    };
    (@value $field:expr) => { $field };
    (@value $field:expr => $part:expr) => { $part };
}
