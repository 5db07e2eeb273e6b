use super::*;

fn told(source: Source) -> Announced {
    Announced {
        source,
        server: "mcp-1".into(),
        server_name: "Desk \"1\"".to_owned(),
        revision: 7,
        at: Timestamp::from_millis(1_700_000_000_000),
    }
}

fn request() -> McpRequest {
    McpRequest {
        session: "h".to_owned().into(),
        id: "\"7\"".to_owned(),
    }
}

#[test]
fn a_cancelled_request_is_named_to_the_others() {
    let message = cancel(&request(), "you").expect("a message");
    assert_eq!(
        hear(message.channel, &message.payload),
        Heard::Cancel(request())
    );
    let own = cancel(&request(), "me").expect("a message");
    assert_eq!(hear(own.channel, &own.payload), Heard::Nothing);
}

fn hear(channel: Channel, payload: &str) -> Heard {
    read(channel, payload.as_bytes(), "me", "p1")
}

#[test]
fn payloads_are_those_of_the_contract_and_ours() {
    let workspace = WorkspaceId::from("w");
    let news = News {
        workspace: Some(&workspace),
        changes: &[told(Source::Workflow), told(Source::External)],
        states: &[("w".into(), "mcp-2".into())],
        revoked: true,
    };
    let messages = of(&news, "me");
    let all: Vec<(&str, &str)> = messages
        .iter()
        .map(|message| (message.channel.name(), message.payload.as_str()))
        .collect();
    assert_eq!(
        all,
        [
            (
                "mcp:workflow_tools_changed",
                r#"{"serverId":"mcp-1","workspaceId":"w","revision":7,"origin":"me"}"#
            ),
            (
                "mcp:tools_changed",
                r#"{"serverId":"mcp-1","serverName":"Desk \"1\"","workspaceId":"w","timestamp":1700000000000,"revision":7,"origin":"me"}"#
            ),
            (
                "toolcast:control",
                r#"{"type":"connection","workspaceId":"w","serverId":"mcp-2","origin":"me"}"#
            ),
            ("toolcast:control", r#"{"type":"revoked","origin":"me"}"#),
        ]
    );
    for message in messages {
        assert_eq!(hear(message.channel, &message.payload), Heard::Nothing);
    }
}

#[test]
fn what_others_say_is_a_look() {
    let one = || Heard::Workspace("w".into());
    for (channel, payload, heard) in [
        // As the original system sends it.
        (
            Channel::WorkflowTools,
            r#"{"serverId":"s","workspaceId":"w"}"#,
            one(),
        ),
        (
            Channel::Tools,
            r#"{"origin":5,"revision":"x","workspaceId":"w"}"#,
            one(),
        ),
        (
            Channel::Control,
            r#"{"type":"revoked","origin":"you"}"#,
            Heard::Everything,
        ),
        (
            Channel::Control,
            r#"{"type":"connection","workspaceId":"w","serverId":"s","state":"READY"}"#,
            Heard::Server("w".into(), "s".into()),
        ),
        (
            Channel::Control,
            r#"{"type":"connection","serverId":"s"}"#,
            Heard::Nothing,
        ),
        (
            Channel::Control,
            r#"{"type":"nudge","serverId":"s","origin":"you"}"#,
            Heard::Nudge("s".into()),
        ),
        (
            Channel::Control,
            r#"{"type":"nudge","serverId":["s"]}"#,
            Heard::Nothing,
        ),
        (
            Channel::Control,
            r#"{"type":"cancel","session":"h","request":"\"7\"","origin":"you"}"#,
            Heard::Cancel(request()),
        ),
        (
            Channel::Control,
            r#"{"type":"cancel","session":"h","request":7}"#,
            Heard::Nothing,
        ),
        (
            Channel::Control,
            r#"{"type":"of a newer release"}"#,
            Heard::Everything,
        ),
        (
            Channel::Control,
            r#"{"type":"ping","origin":"you","process":"p2"}"#,
            Heard::Nothing,
        ),
        (
            Channel::Control,
            r#"{"type":"ping","origin":"me","process":"p1"}"#,
            Heard::Nothing,
        ),
        (
            Channel::Control,
            r#"{"type":"ping","origin":"me","process":"p2"}"#,
            Heard::Namesake,
        ),
    ] {
        assert_eq!(hear(channel, payload), heard, "{payload}");
    }
}

#[test]
fn nonsense_is_nothing() {
    let deep = "[".repeat(10_000);
    let long = format!(r#"{{"workspaceId":"w","x":"{}"}}"#, "x".repeat(LONGEST));
    for payload in [
        "",
        "null",
        "[]",
        "{",
        "{}",
        r#"{"workspaceId":5}"#,
        r#"{"workspaceId":["w"]}"#,
        "\u{0}",
        &deep,
        &long,
    ] {
        assert_eq!(hear(Channel::Tools, payload), Heard::Nothing, "{payload}");
    }
    assert_eq!(
        read(Channel::Tools, b"\xff\xfe", "me", "p1"),
        Heard::Nothing
    );
    assert_eq!(hear(Channel::Control, "[]"), Heard::Nothing);
}
