//! One exchange with a chat service over HTTP. No message or log line here may carry the
//! text, the answer, the URL's path, or the key.

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::{Value, json};

use super::answer::{self, Completion};
use super::prompt::Call;
use super::{ModelConfig, ModelError, ResponseFormat};
use crate::outbound::{self, Misconfigured, Unread, body_within, key_header, root_cause};

/// Bytes of an answer: 4 MiB. Some hundred times the longest that is of use.
pub(super) const MAX_ANSWER: usize = 4 << 20;

/// Where the model is, and how it is asked.
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    key: Option<(HeaderName, HeaderValue)>,
    model: String,
    format: ResponseFormat,
}

impl Endpoint {
    pub(super) fn new(config: &ModelConfig, api_key: Option<&str>) -> Result<Self, Misconfigured> {
        let url = config.service().endpoint(&["chat", "completions"])?;
        if api_key.is_some() && url.scheme() == "http" {
            tracing::warn!("base_url is not https: the model's key is sent unencrypted");
        }
        let client = outbound::client(&url);
        Ok(Self {
            client: client.map_err(|why| Misconfigured(format!("no HTTP client: {why}")))?,
            url,
            key: api_key
                .map(|key| key_header(config.style, key))
                .transpose()?,
            model: config.model.clone(),
            format: config.response_format,
        })
    }

    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Asks once. A connection that broke before anything came back is tried once more.
    pub(super) async fn ask(&self, call: Call, data: &str) -> Result<Completion, ModelError> {
        let body = self.body(call, data);
        let response = match self.send(&body).await {
            Err(error) => {
                let why = root_cause(&error);
                tracing::debug!(call = call.as_str(), why, "the model is asked again");
                self.send(&body).await.map_err(|error| broken(&error))?
            }
            Ok(response) => response,
        };
        if response.status() != StatusCode::OK {
            return Err(self.refused(&response));
        }
        let body = body_within(response, MAX_ANSWER).await;
        answer::completion(&body.map_err(|unread| match unread {
            Unread::Broken(error) => broken(&error),
            Unread::TooLarge => ModelError::Misshapen {
                why: format!("it is larger than {MAX_ANSWER} bytes"),
                tokens: 0,
            },
        })?)
    }

    async fn send(&self, body: &Value) -> reqwest::Result<Response> {
        let mut request = self.client.post(self.url.clone()).json(body);
        if let Some((name, value)) = &self.key {
            request = request.header(name, value);
        }
        request.send().await
    }

    fn body(&self, call: Call, data: &str) -> Value {
        let mut body = json!({
            "model": self.model,
            "temperature": 0,
            "messages": [
                { "role": "system", "content": call.instructions() },
                { "role": "user", "content": data },
            ],
        });
        match self.format {
            ResponseFormat::JsonSchema => {
                let schema =
                    json!({ "name": call.as_str(), "strict": true, "schema": call.schema() });
                body["response_format"] = json!({ "type": "json_schema", "json_schema": schema });
            }
            ResponseFormat::JsonObject => {
                body["response_format"] = json!({ "type": "json_object" })
            }
            ResponseFormat::None => {}
        }
        body
    }

    fn refused(&self, response: &Response) -> ModelError {
        let status = response.status();
        let hint = if status.is_redirection() {
            ": redirects are not followed"
        } else if status == StatusCode::BAD_REQUEST && self.format == ResponseFormat::JsonSchema {
            ": it may not know response_format json_schema"
        } else {
            ""
        };
        let why = format!("the service answered {status}{hint}");
        match status {
            StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY => ModelError::Refused(why),
            _ => ModelError::Unavailable(why),
        }
    }
}

fn broken(error: &reqwest::Error) -> ModelError {
    let what = if error.is_connect() {
        "cannot connect"
    } else {
        "the request failed"
    };
    ModelError::Unavailable(format!("{what}: {}", root_cause(error)))
}
