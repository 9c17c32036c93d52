//! What was probably meant.

use rota_cron::text;

/// ``did you mean `cron`?``, if something is near enough.
pub(crate) fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    text::nearest(word, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}
