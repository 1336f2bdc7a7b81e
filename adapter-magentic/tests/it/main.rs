//! Tests of the adapter from outside: recorded lines in, balanced events out.

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod contents;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod human;
#[cfg(test)]
mod legacy;
#[cfg(test)]
mod once;
#[cfg(test)]
mod orchestrations;
#[cfg(test)]
mod support;
#[cfg(test)]
mod traps;
