//! Texts that hold a secret or personal data, texts that only look like it, and texts
//! made to cost time.
//!
//! Not here: any secret in one piece. They are put together from parts and letters
//! drawn by a seed, so that nothing which scans this repository finds one.

use halofy_core::{MAX_CONTENT_BYTES, PiiKind};

const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LOWER_HEX: &str = "abcdef0123456789";
pub(super) const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const MIXED: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const BASE_32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// `len` characters of an alphabet, always the same ones.
pub(super) fn drawn(alphabet: &str, len: usize) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    let mut state = 0x2545_F491_4F6C_DD1D_u64 ^ len as u64;
    let draw = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        letters[(state >> 33) as usize % letters.len()]
    });
    draw.take(len).collect()
}

/// What names a rule, and a text in which that rule finds a secret.
pub(super) fn secrets() -> Vec<(&'static str, String)> {
    let mixed = |len| drawn(MIXED, len);
    let jwt = ["ey", "J"].concat();
    let pem = ["-----BEGIN RSA PRIVATE", " KEY-----"].concat();
    let slack = ["xo", "xb-"].concat();
    let parts = [
        ("github-pat", ["the bot uses gh", "p_", &mixed(36)].concat()),
        ("github-oauth", ["gh", "o_", &mixed(36)].concat()),
        (
            "github-fine-grained-pat",
            ["github", "_pat_", &drawn(MIXED, 82)].concat(),
        ),
        ("gitlab-pat", ["gl", "pat-", &mixed(20)].concat()),
        (
            "aws-access-token",
            ["AK", "IA", &drawn(BASE_32, 16)].concat(),
        ),
        ("gcp-api-key", ["AI", "za", &mixed(35)].concat()),
        (
            "anthropic-api-key",
            ["sk-ant", "-api03-", &mixed(93), "AA"].concat(),
        ),
        (
            "openai-api-key",
            ["sk-", &mixed(20), "T3Blbk", "FJ", &mixed(20)].concat(),
        ),
        ("stripe-access-token", ["sk", "_live_", &mixed(24)].concat()),
        (
            "slack-bot-token",
            [&slack, "123456789012-1234567890123-", &mixed(24)].concat(),
        ),
        ("npm-access-token", ["np", "m_", &drawn(LOWER, 36)].concat()),
        (
            "pypi-upload-token",
            ["pypi-AgEIcH", "lwaS5vcmc", &mixed(60)].concat(),
        ),
        (
            "sendgrid-api-token",
            ["S", "G.", &mixed(22), ".", &mixed(43)].concat(),
        ),
        (
            "digitalocean-pat",
            ["do", "p_v1_", &drawn(LOWER_HEX, 64)].concat(),
        ),
        (
            "huggingface-access-token",
            ["h", "f_", &drawn(&UPPER.to_lowercase(), 34)].concat(),
        ),
        (
            "shopify-access-token",
            ["shp", "at_", &drawn(LOWER_HEX, 32)].concat(),
        ),
        ("twilio-api-key", ["S", "K", &drawn(LOWER_HEX, 32)].concat()),
        (
            "postman-api-token",
            [
                "PM",
                "AK-",
                &drawn(LOWER_HEX, 24),
                "-",
                &drawn(LOWER_HEX, 34),
            ]
            .concat(),
        ),
        ("linear-api-key", ["lin", "_api_", &mixed(40)].concat()),
        (
            "databricks-api-token",
            ["da", "pi", &drawn(LOWER_HEX, 32)].concat(),
        ),
        (
            "age-secret-key",
            [
                "AGE-SECRET",
                "-KEY-1",
                &drawn("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
            ]
            .concat(),
        ),
        ("doppler-api-token", ["dp", ".pt.", &mixed(43)].concat()),
        (
            "grafana-service-account-token",
            ["gl", "sa_", &mixed(32), "_", &drawn(LOWER_HEX, 8)].concat(),
        ),
        (
            "private-key",
            [&pem, "\n", &mixed(200), "\n", &pem.replace("BEGIN", "END")].concat(),
        ),
        (
            "jwt",
            [&jwt, &mixed(30), ".", &jwt, &mixed(60), ".", &mixed(43)].concat(),
        ),
        (
            "generic-api-key",
            ["api", "_key = \"", &mixed(32), "\""].concat(),
        ),
        (
            "generic-api-key",
            ["the client ", "secret: ", &drawn(LOWER, 40), "\n"].concat(),
        ),
        (
            "datadog-access-token",
            ["datadog", "_key=", &drawn(LOWER, 40)].concat(),
        ),
        (
            "hashicorp-tf-password",
            ["pass", "word = \"", &drawn(LOWER, 16), "\""].concat(),
        ),
    ];
    parts.to_vec()
}

/// Texts with personal data of one kind, each a valid one and the same with its check
/// broken.
pub(super) fn personal() -> Vec<(PiiKind, &'static str, &'static str)> {
    use PiiKind::{CreditCard, Email, Iban, IpAddress, NationalId, Phone};
    vec![
        (
            Email,
            "write to ada.l+x@example.com",
            "write to ada.l+x@example",
        ),
        (
            Email,
            "<o'hara@mail.example.ie>",
            "<o'hara.@mail.example.ie>",
        ),
        (Email, "联系alice@例え.テスト谢谢", "联系alice@例え"),
        (Phone, "+1 415 555 0132", "+1 115 555 0132"),
        (
            Phone,
            "ring (415) 555-0132 at noon",
            "ring (411) 555-0132 at noon",
        ),
        (Phone, "1-800-555-0199", "1-800-155-0199"),
        (Phone, "+49 (0)30 1234567", "+999 30 1234567"),
        (Phone, "+33 6 12 34 56 78", "+33 6"),
        (Phone, "her mobile: 0170 1234567", "her room: 0170 1234567"),
        (CreditCard, "4111 1111 1111 1111", "4111 1111 1111 1112"),
        (
            Phone,
            "+33\u{202f}6\u{202f}12\u{202f}34\u{202f}56\u{202f}78",
            "+33\u{202f}6",
        ),
        (
            Phone,
            "電話 +８１ ３ １２３４ ５６７８",
            "電話 ８１ ３ １２３４ ５６７８",
        ),
        (
            CreditCard,
            "4111\u{2011}1111\u{2011}1111\u{200b}\u{2011}1111",
            "4111\u{2011}1111\u{2011}1111\u{200b}\u{2011}1112",
        ),
        (
            CreditCard,
            "card 5500-0000-0000-0004",
            "card 5500-0000-0000-0005",
        ),
        (CreditCard, "378282246310005", "378282246310006"),
        (CreditCard, "6011000990139424,", "9011000990139421,"),
        (Iban, "DE89370400440532013000", "DE88370400440532013000"),
        (
            Iban,
            "to GB82 WEST 1234 5698 7654 32 today",
            "to GB82 WEST 1234 5698 7654 33 today",
        ),
        (Iban, "NO9386011117947", "NO938601111794"),
        (
            IpAddress,
            "seen from 8.8.4.4:443.",
            "seen from 8.8.4.256:443.",
        ),
        (IpAddress, "2606:4700:4700::1111", "2606:4700:4700:::1111"),
        (NationalId, "SSN 123-45-6789", "SSN 666-45-6789"),
        (
            NationalId,
            "social security number 123456789",
            "number 123456789",
        ),
        (NationalId, "111.444.777-35", "111.444.777-36"),
        (NationalId, "RSSMRA85T10A562S", "RSSMRA85T10A562T"),
        (NationalId, "DNI 12345678Z", "DNI 12345678A"),
        (NationalId, "NIE X1234567L", "NIE X1234567M"),
        (NationalId, "NINO AB123456C", "NINO GB123456C"),
        (NationalId, "1 84 12 76 451 089 46", "1 84 12 76 451 089 47"),
        (
            NationalId,
            "aadhaar 2341 2341 2346",
            "aadhaar 2341 2341 2347",
        ),
        (
            NationalId,
            "Steuer-ID 86 095 742 719",
            "Steuer-ID 86 095 742 718",
        ),
        (NationalId, "PESEL: 44051401359", "PESEL: 44051401358"),
        (
            NationalId,
            "NHS number 943 476 5919",
            "NHS number 943 476 5918",
        ),
        (NationalId, "BSN 111222333", "BSN 111222334"),
        (
            NationalId,
            "personnummer 811228-9874",
            "personnummer 811228-9875",
        ),
    ]
}

/// Texts that hold neither, though they look like it.
pub(super) fn harmless() -> Vec<String> {
    let png = [
        "data:image/png;base64,",
        "iVBORw0KGgoAAAANSUhEUgAA",
        &drawn(MIXED, 600),
    ]
    .concat();
    let mut texts = vec![
        png,
        format!("sha512-{}==", drawn(MIXED, 86)),
        drawn(MIXED, 2_000),
    ];
    let written = [
        "The kettle is in the kitchen, and Grace prefers green tea.",
        "fixed in da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "commit 5f2c9d1 by the release bot",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "id 12345678-1234-4111-8111-411111111111",
        "memory 01ARZ3NDEKTSV4RRFFQ69G5FAV supersedes 01BX5ZZKBKACTAV9WEVGEMMVRZ",
        "the documents show AKIAIOSFODNN7EXAMPLE",
        "the key to success, understanding, and patience",
        "API key rotation is due; ask Bob for the token",
        "password = \"<your password>\"",
        "export TOKEN=${GITHUB_TOKEN}",
        "token: {{ secrets.deploy_token }}",
        "const token = getToken();",
        "secret=aaaaaaaaaaaaaaaaaaaaaaaa",
        "api_key = \"changeme-placeholder-value\"",
        "run cargo add serde@1.0.229 and aho-corasick = 1.1",
        "meet on 2024-05-01 at 12:30:45, not 01.05.2024",
        "2024-05-01T12:30:45.123456789+02:00",
        "version v1.2.3.4 of std::a::b, listening on 127.0.0.1:8080 and [::1]:443",
        "the printer is 192.168.1.20, the example 203.0.113.7 and 2001:db8::1",
        "pi is 3.14159265358979323846",
        "we counted 1234567890123 rows in 1714561234567 ms",
        "scores 12 15 18 20 22 25 27 30 33 36",
        "thumbs up @alice and @bob, see @scope/package@latest",
        "invoice 4111-1111-1111-1111-1111",
        "phone call on 2024-05-01 with 12 people",
        "SSN format is 000-12-3456 or 123-00-4567 or 123-45-0000",
        "the advertisement had 078-05-1120 in it",
        "ISBN 978-3-16-148410-0, EAN 4006381333931",
        "DE is Germany and GB82 is a postcode of nowhere",
        "coordinates +48.858370, +2.294481",
    ];
    texts.extend(written.map(str::to_owned));
    texts
}

/// Texts of the most bytes that a memory may have, made to cost time.
pub(super) fn hostile() -> Vec<String> {
    let words = "api_key= secret: password token jira yandex kubernetes curl -H data: kind: ";
    let seeds = [
        "1 ",
        "1-",
        "4111 ",
        "+1",
        "1:",
        "a@",
        "@",
        "a.",
        "GB82 ",
        "0 1 ",
        "phone 1 ",
        "key=",
        "eyJa.",
        "curl ",
        "curl -u ",
        "kind: secret data: ",
        "-----BEGIN PRIVATE KEY-----",
        "secret=aaaaaaaaaaaaaaaa ",
        "key = \"aaaaaaaaaaaaaaaa\" ",
        "\u{1F600}",
        words,
    ];
    let full = |seed: &str| seed.repeat(MAX_CONTENT_BYTES / seed.len());
    seeds.into_iter().map(full).collect()
}
