//! Tests of the adapter from outside: recorded lines in, balanced events out.

#[cfg(test)]
mod golden;
#[cfg(test)]
mod orchestrations;
#[cfg(test)]
mod support;
