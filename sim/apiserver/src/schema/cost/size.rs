//! Sizes of values, and costs that follow from them.

/// The smallest and the largest possible size of a value: characters, bytes, items or entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Size {
    /// The size of a value of which nothing is known.
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) const fn exact(size: u64) -> Self {
        Self { min: size, max: size }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Returns the size of a value with one of two sizes.
    pub(super) fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Returns the cost of an operation that visits each element.
    pub(super) fn cost(self, factor: f64) -> u64 {
        scaled(self.max, factor)
    }
}

/// Returns a product, rounded up; at most `u64::MAX`. The server calculates with floats as well.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the product is positive, and the conversion limits it"
)]
pub(super) fn scaled(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).ceil() as u64
}
