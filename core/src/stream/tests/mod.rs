//! Tests of the stream machine: each rule of its table by name, recorded scenarios, limits, and properties.

mod properties;
