use serde::Serialize;

/// A set of measurements in seven numbers, in the unit of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    pub count: u64,
    pub mean: f64,
    /// Of a sample: divided by one less than the count. 0 of a single value.
    pub standard_deviation: f64,
    pub minimum: f64,
    pub first_quartile: f64,
    pub median: f64,
    pub third_quartile: f64,
    pub maximum: f64,
}

impl Summary {
    /// `None` of an empty set. Quartiles lie between neighbours as NumPy and R have it by default (type 7 of Hyndman
    /// and Fan, 1996).
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (minimum, maximum) = (*values.first()?, *values.last()?);
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let quantile = |share: f64| {
            let position = share * (count - 1.0);
            let below = values[position.floor() as usize];
            let above = values[position.ceil() as usize];
            below + (above - below) * position.fract()
        };
        Some(Self {
            count: values.len() as u64,
            mean,
            standard_deviation: if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 },
            minimum,
            first_quartile: quantile(0.25),
            median: quantile(0.5),
            third_quartile: quantile(0.75),
            maximum,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_neighbours() {
        let summary = Summary::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((summary.minimum, summary.maximum, summary.mean), (1.0, 4.0, 2.5));
        assert_eq!((summary.first_quartile, summary.median, summary.third_quartile), (1.75, 2.5, 3.25));
        assert!((summary.standard_deviation - (5.0f64 / 3.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn one_value_is_all_of_them() {
        let summary = Summary::of([7.0]).unwrap();
        assert_eq!(
            (summary.first_quartile, summary.third_quartile, summary.standard_deviation),
            (7.0, 7.0, 0.0)
        );
        assert_eq!(Summary::of([]), None);
    }
}
