//! An HTTP answer, and the questions that tests ask of it.

use reqwest::header::HeaderMap;
use serde_json::Value;

/// What came back over HTTP.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as JSON; null when it is none.
    pub body: Value,
    /// The body as it came.
    pub text: String,
}

impl Answer {
    pub(crate) async fn read(response: reqwest::Response) -> reqwest::Result<Self> {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let text = response.text().await?;
        let body = serde_json::from_str(&text).unwrap_or_default();
        Ok(Self {
            status,
            headers,
            body,
            text,
        })
    }

    /// Asserts the status and gives the answer on.
    ///
    /// # Panics
    /// When it is another one; shows the body.
    #[track_caller]
    pub fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// Asserts a problem with this status and code, and gives the answer on.
    ///
    /// # Panics
    /// When it is something else; shows the body.
    #[track_caller]
    pub fn expect_problem(self, status: u16, code: &str) -> Self {
        assert_eq!(
            self.headers["content-type"], "application/problem+json",
            "{}",
            self.text
        );
        assert_eq!(self.body["code"], code, "{}", self.text);
        assert_eq!(self.body["status"], status, "{}", self.text);
        self.expect_status(status)
    }

    /// Asserts a 422 that names this field, and gives the answer on.
    ///
    /// # Panics
    /// When it is something else; shows the body.
    #[track_caller]
    pub fn expect_invalid(self, field: &str) -> Self {
        assert_eq!(self.body["field"], field, "{}", self.text);
        self.expect_problem(422, "invalid_field")
    }

    /// The contents of a search's results, best first.
    #[track_caller]
    pub fn contents(&self) -> Vec<&str> {
        self.of_results("content")
    }

    /// The ids of a search's results, best first.
    #[track_caller]
    pub fn ids(&self) -> Vec<&str> {
        self.of_results("id")
    }

    /// One text field of each result.
    ///
    /// # Panics
    /// When the answer is no search's.
    #[track_caller]
    pub fn of_results(&self, field: &str) -> Vec<&str> {
        let results = self.body["results"].as_array();
        let results = results.unwrap_or_else(|| panic!("no results in {}", self.text));
        let text = |hit: &'_ Value| hit[field].as_str().is_some();
        assert!(
            results.iter().all(text),
            "a result without {field} in {}",
            self.text
        );
        results
            .iter()
            .filter_map(|hit| hit[field].as_str())
            .collect()
    }

    /// The id that a write stored or, if it was known already, bumped.
    ///
    /// # Panics
    /// When the answer is no write's.
    #[track_caller]
    pub fn id(&self) -> &str {
        let stored = self.body["stored"][0].as_str();
        let id = stored.or_else(|| self.body["deduplicated"][0].as_str());
        id.unwrap_or_else(|| panic!("no id in {}", self.text))
    }
}
