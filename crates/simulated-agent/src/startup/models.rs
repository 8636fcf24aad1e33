//! The models the simulated service offers.

pub struct Model {
    pub id: String,
    pub display_name: String,
}

pub const DEFAULT: &str = "auto";

const FAMILIES: [(&str, &str); 16] = [
    ("composer-2", "Composer 2"),
    ("composer-2.5", "Composer 2.5"),
    ("gpt-5-mini", "GPT-5 Mini"),
    ("gpt-5.2", "GPT-5.2"),
    ("gpt-5.2-codex", "GPT-5.2 Codex"),
    ("gpt-5.3-codex", "GPT-5.3 Codex"),
    ("gpt-5.4", "GPT-5.4"),
    ("gpt-5.4-nano", "GPT-5.4 Nano"),
    ("sonnet-4.5", "Claude 4.5 Sonnet"),
    ("sonnet-4.6", "Claude 4.6 Sonnet"),
    ("opus-4.5", "Claude 4.5 Opus"),
    ("opus-4.6", "Claude 4.6 Opus"),
    ("gemini-3-flash", "Gemini 3 Flash"),
    ("gemini-3.1-pro", "Gemini 3.1 Pro"),
    ("grok-4", "Grok 4"),
    ("kimi-k2.5", "Kimi K2.5"),
];

const EFFORTS: [(&str, &str); 5] =
    [("", ""), ("-low", " Low"), ("-high", " High"), ("-xhigh", " Extra High"), ("-max", " Max")];

const VARIANTS: [(&str, &str); 6] = [
    ("", ""),
    ("-fast", " Fast"),
    ("-thinking", " Thinking"),
    ("-thinking-fast", " Thinking Fast"),
    ("-1m", " 1M"),
    ("-thinking-1m", " 1M Thinking"),
];

/// Returns `auto`, then every family in all its variants. The real list is also about ten kilobytes long.
pub fn all() -> impl Iterator<Item = Model> {
    let auto = Model { id: DEFAULT.to_owned(), display_name: "Auto".to_owned() };
    let families = FAMILIES.iter().flat_map(|(id, name)| {
        EFFORTS.iter().flat_map(move |(effort, effort_name)| {
            VARIANTS.iter().map(move |(variant, variant_name)| Model {
                id: format!("{id}{effort}{variant}"),
                display_name: format!("{name}{effort_name}{variant_name}"),
            })
        })
    });
    std::iter::once(auto).chain(families)
}

/// Finds a model by its exact id.
pub fn find(id: &str) -> Option<Model> {
    all().find(|model| model.id == id)
}

/// Returns the text on stderr for an unknown model: one long line.
pub fn refusal(id: &str) -> String {
    let ids: Vec<String> = all().map(|model| model.id).collect();
    format!("Cannot use this model: {id}. Available models: {}", ids.join(", "))
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
