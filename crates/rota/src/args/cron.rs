//! `rota cron`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// Print the next slots of an expression, or, with `-`, of each line read
    ///
    /// With `-`, each line of the input is a JSON object with `expr` and, if the flags do not say it, `dialect`
    /// (`unix` or `quartz`), `zone`, `from`, `count`, `dst` (`default`, `quartz`, or an object with `gap` and
    /// `overlap`) and `job`. Each is answered at once with one line, `{"fires":[…]}` or `{"error":{…}}`.
    Next {
        /// Such as `0 2 * * *`, or `-`
        expr: String,
        #[command(flatten)]
        fields: CronFields,
        /// The slots after this instant [default: now]
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// How many
        #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(..=100_000))]
        count: u32,
    },
    /// Say an expression in words
    Explain {
        /// Such as `0 2 * * *`
        expr: String,
        #[command(flatten)]
        fields: CronFields,
        /// The language
        #[arg(long, value_parser = ["en", "zh"], default_value = "en")]
        lang: String,
    },
}

/// What an expression is read with.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CronFields {
    /// The language of the expression [default: by its number of fields]
    #[arg(long, value_parser = ["unix", "quartz"])]
    pub(crate) dialect: Option<String>,
    /// IANA name or fixed offset [default: UTC]
    #[arg(long, visible_alias = "timezone", value_name = "ZONE", allow_hyphen_values = true)]
    pub(crate) zone: Option<String>,
    /// How it meets a change of the clocks; `quartz` as Quartz does it
    #[arg(long, value_parser = ["default", "quartz"], conflicts_with_all = ["gap", "overlap"])]
    pub(crate) dst: Option<String>,
    /// What becomes of times that are skipped when clocks go forward
    #[arg(long, visible_alias = "dst-gap", value_parser = ["run_after", "skip"])]
    pub(crate) gap: Option<String>,
    /// Which of two passes counts when clocks go back
    #[arg(long, visible_alias = "dst-overlap", value_parser = ["first", "last", "both"])]
    pub(crate) overlap: Option<String>,
    /// The name of a job, from which `H` draws its numbers
    #[arg(long, value_name = "NAME")]
    pub(crate) job: Option<String>,
}
