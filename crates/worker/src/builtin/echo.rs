//! `echo`: says its parameter.

use std::convert::Infallible;

use crate::context::Context;

pub(crate) async fn echo(context: Context) -> Result<Option<String>, Infallible> {
    let param = context.param();
    if param.is_empty() {
        return Ok(None);
    }
    context.log(param);
    Ok(Some(param.to_owned()))
}
