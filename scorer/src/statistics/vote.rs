use crate::official::Ballot;

/// The answer most attempts agree on, as an index into `answers`; the earlier one on a tie.
///
/// Two answers agree when the official scorer would take them for the same number, list or text whichever of the two
/// were the truth; `$` and `%` do not count in numbers. Missing and blank answers do not vote. The truth plays no
/// part. `None` when nobody votes.
pub fn majority_vote(answers: &[Option<&str>]) -> Option<usize> {
    let mut counts: Vec<(Ballot, usize, usize)> = Vec::new();
    for (index, answer) in answers.iter().enumerate() {
        let Some(ballot) = answer.and_then(Ballot::cast) else { continue };
        match counts.iter_mut().find(|(seen, _, _)| *seen == ballot) {
            Some((_, _, votes)) => *votes += 1,
            None => counts.push((ballot, index, 1)),
        }
    }
    // `max_by_key` takes the last of equals; the order of first votes is turned round for that.
    counts.into_iter().rev().max_by_key(|(_, _, votes)| *votes).map(|(_, first, _)| first)
}

/// Whether two answers are one to [`majority_vote`]. A blank answer is like no other.
pub fn same_answer(first: &str, second: &str) -> bool {
    Ballot::cast(first).zip(Ballot::cast(second)).is_some_and(|(first, second)| first == second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answers: &[Option<&str>], expected: Option<usize>) {
        assert_eq!(majority_vote(answers), expected, "{answers:?}");
    }

    #[test]
    fn the_most_frequent_answer_wins_however_it_is_spelt() {
        check(&[Some("16"), Some("17"), Some("$17.0")], Some(1));
        check(&[Some("Lima"), Some("the Lima"), Some(" lima.")], Some(0));
        check(&[Some("b, a"), Some("a; B"), Some("A,b")], Some(1));
    }

    #[test]
    fn the_earlier_of_a_tie_wins() {
        check(&[Some("b"), Some("a"), Some("a"), Some("b")], Some(0));
        check(&[Some("x"), Some("y"), Some("z")], Some(0));
    }

    #[test]
    fn who_says_nothing_does_not_vote() {
        check(&[None, Some(" "), None, Some("a")], Some(3));
        check(&[None, None], None);
        check(&[], None);
    }

    #[test]
    fn two_answers_are_one_as_they_are_in_a_vote() {
        assert!(same_answer("$17.0", "17") && same_answer("the Lima", " THE lima."));
        assert!(!same_answer("17", "17 km") && !same_answer("", " "));
    }

    #[test]
    fn a_list_of_digits_is_not_the_number_they_would_make() {
        check(&[Some("12"), Some("1,2"), Some("1, 2")], Some(1));
    }
}
