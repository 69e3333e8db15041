use gaia_agent::tools::{CallFailure, Redactor};
use serde_json::json;

use crate::support::*;

trials![a_secret_comes_back_in_no_way, a_secret_of_the_arguments_is_known_too, short_values_are_no_secrets];

const SECRET: &str = "sk-secret-0123456789";

async fn a_secret_comes_back_in_no_way() {
    let mut spec = peer("x", &[]);
    env_of(&mut spec).insert("SECRET_KEY".to_owned(), SECRET.to_owned());
    let notices = Notices::default();
    let host = start_with(&[spec], &notices, None).await.unwrap();
    let output = call(&host, "leak", json!({})).await;
    assert_eq!(output.structured, Some(json!({ "key": "[redacted: SECRET_KEY]" })));
    assert!(
        text(&output).starts_with("the key is [redacted: SECRET_KEY]\n[redacted: SECRET_KEY]\n"),
        "{}",
        text(&output)
    );
    let refused = call(&host, "leak", json!({ "how": "error" })).await;
    assert_eq!(refused.failure, Some(CallFailure::Protocol));
    let died = call(&host, "leak", json!({ "how": "die" })).await;
    assert_eq!(died.failure, Some(CallFailure::Died));
    for notice in ["stderr says [redacted", "stdout says [redacted", "{\"log\":\"[redacted"] {
        notices.wait_for(notice).await;
    }
    let everything = format!("{output:?}{refused:?}{died:?}{:?}{host:?}", notices.all());
    assert!(!everything.contains(SECRET), "{everything}");
    host.close().await;
}

async fn a_secret_of_the_arguments_is_known_too() {
    let mut spec = peer("x", &[]);
    spec.redactor = Redactor::default();
    spec.redactor.add("API_TOKEN", "tok-0123456789");
    let host = start(&[spec]).await.unwrap();
    let output = call(&host, "echo", json!({ "text": "it is tok-0123456789" })).await;
    assert_eq!(text(&output), "it is [redacted: API_TOKEN]");
    host.close().await;
}

async fn short_values_are_no_secrets() {
    let mut spec = peer("x", &[]);
    env_of(&mut spec).insert("SECRET_KEY".to_owned(), "1234567".to_owned());
    env_of(&mut spec).insert("CACHE_DIR".to_owned(), "/var/cache/peer".to_owned());
    let host = start(&[spec]).await.unwrap();
    let output = call(&host, "echo", json!({ "text": "1234567 /var/cache/peer" })).await;
    assert_eq!(text(&output), "1234567 /var/cache/peer");
    host.close().await;
}
