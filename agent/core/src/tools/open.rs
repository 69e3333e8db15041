//! From an entry in the config to a server that has listed its tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService,
};
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::changes::ToolChanges;
use super::connection::{Connection, EXIT_PATIENCE, STDERR_PATIENCE, Watching, with_stderr};
use super::explain::{Refusal, describe_http, describe_start, refusal};
use super::handler::{Handler, ProgressWatch};
use super::http::{Authorization, Endpoint};
use super::listing::{Listing, list_tools};
use super::process::{Process, describe_exit};
use super::report::Reporter;
use super::spill::Spills;
use super::sse::SseTransport;
use super::stdio::StdioTransport;
use super::{HttpWire, Protocol, ServerSpec, TransportSpec, command};
use crate::event::NoticeLevel;

/// Why a connection could not be opened; each a clause after "failed to start MCP server `x`: ".
pub(super) enum OpenError {
    /// The entry in the config is at fault.
    Entry(String),
    Failed(String),
}

/// One way to talk to a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Way {
    Legacy,
    Modern,
    /// HTTP+SSE, which is of the legacy era only.
    Sse,
}

enum Attempt {
    Entry(String),
    Failed { reason: String, refusal: Refusal },
}

type Opened = (Connection, Listing);

/// Tries the ways that the entry allows, all within its start timeout; only the `known` one for a server that has
/// been spoken to before.
///
/// The legacy era comes first: a server of both eras then keeps its session, and one that is slow to start is not
/// mistaken for an old one, as it is by rmcp's own automatic mode, which gives the modern probe ten seconds.
pub(super) async fn open(
    spec: &ServerSpec,
    environment: &BTreeMap<String, String>,
    reporter: &Arc<Reporter>,
    known: Option<Way>,
) -> Result<Opened, OpenError> {
    let deadline = Instant::now() + spec.startup_timeout;
    let opening = Opening { spec, environment, reporter, deadline };
    let old_wire = matches!(&spec.transport, TransportSpec::Http { wire: HttpWire::Sse, .. });
    let first = known.unwrap_or(match spec.protocol {
        _ if old_wire => Way::Sse,
        Protocol::Modern => Way::Modern,
        Protocol::Legacy | Protocol::Auto => Way::Legacy,
    });
    let (mut told, first_refusal) = match opening.attempt(first).await {
        Ok(opened) => return Ok(opened),
        Err(Attempt::Entry(reason)) => return Err(OpenError::Entry(reason)),
        Err(Attempt::Failed { reason, refusal }) => (reason, refusal),
    };
    let others = [
        (Way::Modern, known.is_none() && spec.protocol == Protocol::Auto && first_refusal.may_be_the_era()),
        (Way::Sse, known.is_none() && spec.protocol != Protocol::Modern && first_refusal == Refusal::OldWire),
    ];
    for (way, _) in others.into_iter().filter(|&(way, fits)| fits && way != first && first != Way::Sse) {
        match opening.attempt(way).await {
            Ok(opened) => return Ok(opened),
            Err(Attempt::Entry(reason)) => return Err(OpenError::Entry(reason)),
            // It ends whatever it is asked: the first end tells everything.
            Err(Attempt::Failed { refusal: Refusal::Exit, .. }) if first_refusal == Refusal::Exit => {}
            Err(Attempt::Failed { reason, .. }) => {
                let which = match way {
                    Way::Modern => "in the modern protocol",
                    Way::Legacy | Way::Sse => "over HTTP+SSE",
                };
                told = format!("{told}; and {which}: {reason}");
            }
        }
    }
    Err(OpenError::Failed(told))
}

struct Opening<'a> {
    spec: &'a ServerSpec,
    environment: &'a BTreeMap<String, String>,
    reporter: &'a Arc<Reporter>,
    deadline: Instant,
}

type Service = RunningService<RoleClient, Handler>;

/// What a handshake came to; `Err` when the time was over.
type Served = Result<Result<Service, ClientInitializeError>, tokio::time::error::Elapsed>;

impl Opening<'_> {
    async fn attempt(&self, way: Way) -> Result<Opened, Attempt> {
        let spec = self.spec;
        let progress = Arc::new(ProgressWatch::default());
        let changes = Arc::new(ToolChanges::new(self.reporter.clone()));
        let handler =
            Handler { reporter: self.reporter.clone(), progress: progress.clone(), changes: changes.clone() };
        let end_of_input = CancellationToken::new();
        let spills = Arc::new(Spills::default());
        let (process, served) = match &spec.transport {
            TransportSpec::Stdio { .. } => {
                let (process, transport) = self.spawn(end_of_input.clone(), spills.clone())?;
                (Some(process), self.serve(handler, transport, way).await)
            }
            TransportSpec::Http { .. } => (None, self.serve_http(handler, way, spills.clone()).await?),
        };
        let service = match served {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => {
                let doing = match error {
                    ClientInitializeError::ConnectionClosed(_)
                    | ClientInitializeError::TransportError { .. } => Doing::Its,
                    _ => Doing::Ours,
                };
                let reason = describe_start(&error, spec);
                let reason = obituary(process.as_ref(), &end_of_input, reason, doing).await;
                return Err(Attempt::Failed { reason, refusal: refusal(&error, &spec.transport) });
            }
            Err(_) => {
                let reason = self.too_late("no answer to its first request");
                let reason = obituary(process.as_ref(), &end_of_input, reason, Doing::Ours).await;
                return Err(Attempt::Failed { reason, refusal: Refusal::Final });
            }
        };
        service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        let connection =
            Connection::new(service, process, end_of_input, Watching { progress, spills }, spec, way);
        let reason = match timeout_at(self.deadline, list_tools(connection.peer())).await {
            Ok(Ok(listing)) => {
                changes
                    .begin_with(listing.tools.iter().map(|tool| tool.name.clone()).collect::<BTreeSet<_>>());
                connection.watch(changes);
                self.check_version(&connection);
                return Ok((connection, listing));
            }
            Ok(Err(reason)) => reason,
            Err(_) => self.too_late("no complete list of tools"),
        };
        let doing = if connection.is_alive() { Doing::Ours } else { Doing::Its };
        let reason = obituary(connection.process(), connection.end_of_input(), reason, doing).await;
        connection.close().await;
        Err(Attempt::Failed { reason, refusal: Refusal::Final })
    }

    fn spawn(
        &self,
        end_of_input: CancellationToken,
        spills: Arc<Spills>,
    ) -> Result<(Process, StdioTransport), Attempt> {
        let TransportSpec::Stdio { command, args, env, cwd } = &self.spec.transport else {
            return Err(Attempt::Entry("it has no `command`".to_owned()));
        };
        let program = command::find(command, env).map_err(Attempt::Entry)?;
        let environment = command::environment(env, self.environment);
        let spawned = Process::spawn(&program, args, &environment, cwd.as_deref(), self.reporter.clone());
        let (process, pipes) = spawned.map_err(|error| {
            let folder = cwd.as_ref().map(|cwd| format!(" in `{}`", cwd.display())).unwrap_or_default();
            Attempt::Entry(format!("cannot run `{}`{folder}: {error}", program.display()))
        })?;
        Ok((process, StdioTransport::new(pipes, end_of_input, self.reporter.clone(), spills)))
    }

    async fn serve_http(&self, handler: Handler, way: Way, spills: Arc<Spills>) -> Result<Served, Attempt> {
        let TransportSpec::Http { url, headers, bearer_token, tokens, .. } = &self.spec.transport else {
            return Err(Attempt::Entry("it has no `url`".to_owned()));
        };
        let endpoint = Endpoint::new(url, headers, bearer_token.as_deref()).map_err(Attempt::Entry)?;
        let login = endpoint.with_login(tokens.as_ref(), self.reporter.redactor());
        let endpoint = match timeout_at(self.deadline, login).await {
            Ok(Ok(endpoint)) => endpoint,
            Ok(Err(reason)) => return Err(Attempt::Failed { reason, refusal: Refusal::Final }),
            Err(_) => {
                let reason = self.too_late("no word from its authorization server");
                return Err(Attempt::Failed { reason, refusal: Refusal::Final });
            }
        };
        if way == Way::Sse {
            let connect = SseTransport::connect(endpoint, self.reporter.clone(), spills);
            return match timeout_at(self.deadline, connect).await {
                Ok(Ok(transport)) => Ok(self.serve(handler, transport, way).await),
                Ok(Err(error)) => {
                    let reason = describe_http(&error, self.spec);
                    Err(Attempt::Failed { reason, refusal: Refusal::Final })
                }
                Err(_) => {
                    let reason = self.too_late("no first event");
                    Err(Attempt::Failed { reason, refusal: Refusal::Final })
                }
            };
        }
        let config = endpoint.config();
        Ok(match endpoint.authorization {
            Authorization::Login(client) => {
                let transport = StreamableHttpClientTransport::with_client(client, config);
                self.serve(handler, transport, way).await
            }
            Authorization::None | Authorization::Token(_) => {
                let transport = StreamableHttpClientTransport::with_client(endpoint.client, config);
                self.serve(handler, transport, way).await
            }
        })
    }

    async fn serve<T, E, A>(&self, handler: Handler, transport: T, way: Way) -> Served
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let mode = match way {
            Way::Legacy | Way::Sse => ClientLifecycleMode::Initialize,
            Way::Modern => {
                ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
            }
        };
        timeout_at(self.deadline, handler.serve_with_lifecycle(transport, mode)).await
    }

    fn check_version(&self, connection: &Connection) {
        let Some((version, _)) = connection.about() else { return };
        if !ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version) {
            self.reporter.announce(
                NoticeLevel::Warning,
                &format!("speaks version `{version}` of the protocol, which is not known here; going on"),
            );
        }
    }

    fn too_late(&self, what: &str) -> String {
        let patience: Duration = self.spec.startup_timeout;
        format!("{what} within {} s (`startup_timeout_sec`)", patience.as_secs_f64())
    }
}

/// Who ended the connection.
#[derive(Clone, Copy)]
enum Doing {
    Ours,
    Its,
}

/// Ends a server that did not start, and tells how it ended.
async fn obituary(
    process: Option<&Process>,
    end_of_input: &CancellationToken,
    reason: String,
    doing: Doing,
) -> String {
    let Some(process) = process else { return reason };
    // Its own end explains more than the broken pipe that we saw.
    let status = match doing {
        Doing::Its => process.exited(EXIT_PATIENCE).await,
        Doing::Ours => None,
    };
    end_of_input.cancel();
    process.shut_down().await;
    let what = match status {
        Some(status) => format!("{} before it was ready", describe_exit(status)),
        None => reason,
    };
    with_stderr(what, &process.stderr_tail(STDERR_PATIENCE).await)
}
