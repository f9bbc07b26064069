//! `halofy cartridge verify`: whether a signature fits a component, and a key. What a
//! kernel makes of both is its operator's matter.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use halofy_cartridge::{
    Limits, PublicKey, SignatureFile, Trust, TrustedKey, inspect, read_component,
};

use super::sign::signature_path;
use crate::cli::output::{json, line};
use crate::cli::settings::Settings;

/// Check a cartridge's signature.
///
/// Without --public-key this says only that the signature holds for the key that it
/// names: whose key that is, nobody knows.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// A component.
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// The signature [default: FILE.wasm.sig]
    #[arg(long, short, value_name = "FILE")]
    signature: Option<PathBuf>,
    /// The key that must have signed it: base64, or a PEM file.
    #[arg(long, short, value_name = "KEY|FILE")]
    public_key: Option<String>,
}

impl Verify {
    pub(super) fn run(self, settings: &Settings) -> Result<ExitCode> {
        let bytes = read_limited(&self.file)?;
        let path = self.signature.unwrap_or_else(|| signature_path(&self.file));
        let cannot = || format!("cannot read the signature {}", path.display());
        let file = File::open(&path).with_context(cannot)?;
        let signature = SignatureFile::read(file).with_context(cannot)??;
        let known = self.public_key.as_deref().map(public_key).transpose()?;
        check(&bytes, &signature, known)
            .with_context(|| format!("{} is refused", self.file.display()))?;
        let (manifest, key_id) = (signature.manifest(), signature.public_key().id());
        if settings.json {
            json(&serde_json::json!({
                "name": manifest.name,
                "version": manifest.version,
                "digest": signature.digest().to_string(),
                "keyId": key_id,
                "publicKey": signature.public_key(),
                "keyGiven": known.is_some(),
            }));
        } else {
            let (name, version) = (&manifest.name, &manifest.version);
            let whose = match known {
                Some(_) => "the key that you gave",
                None => "whose key that is, only --public-key can tell",
            };
            line(format_args!(
                "{name} {version} is signed with key {key_id}: {whose}"
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// As a kernel that trusts `known` for any name, or else the key that signed.
fn check(bytes: &[u8], signature: &SignatureFile, known: Option<PublicKey>) -> Result<()> {
    let limit = Limits::default().component;
    let key = TrustedKey {
        id: "given".to_owned(),
        vendor: String::new(),
        public_key: known.unwrap_or(signature.public_key()),
        names: vec!["*".to_owned()],
        revoked: false,
    };
    let trust = Trust {
        keys: &[key],
        allow_unsigned: false,
        limit,
    };
    let verdict = trust.check(bytes, Some(signature))?;
    verdict.check_manifest(inspect(bytes, limit)?.manifest.as_ref())?;
    Ok(())
}

fn public_key(given: &str) -> Result<PublicKey> {
    let path = Path::new(given);
    if path.is_file() {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the key {given}"))?;
        return text
            .parse()
            .with_context(|| format!("cannot use the key {given}"));
    }
    match given.parse() {
        Ok(key) => Ok(key),
        Err(why) => bail!("--public-key is neither a file nor a key: {why}"),
    }
}

/// The bytes of a component, of an endless file no more than may be admitted.
pub(super) fn read_limited(path: &Path) -> Result<Vec<u8>> {
    let cannot = || format!("cannot read the cartridge {}", path.display());
    let file = File::open(path).with_context(cannot)?;
    Ok(read_component(file, Limits::default().component).with_context(cannot)??)
}

#[cfg(test)]
mod tests {
    use halofy_cartridge::{SignatureError, VendorKey};

    use super::*;

    const COMPONENT: &[u8] = include_bytes!("../../../../cartridge/fuzz/seeds/admit/named.wasm");
    const SIGNATURE: &[u8] =
        include_bytes!("../../../../cartridge/fuzz/seeds/signature/named.json");

    #[test]
    fn a_signature_is_checked_for_the_key_that_is_given() -> Result<()> {
        let signature = SignatureFile::parse(SIGNATURE)?;
        check(COMPONENT, &signature, None)?;
        check(COMPONENT, &signature, Some(signature.public_key()))?;
        let other = VendorKey::generate()?.public();
        let refused = check(COMPONENT, &signature, Some(other)).err();
        let refused = refused.and_then(|why| why.downcast::<SignatureError>().ok());
        assert_eq!(
            refused.map(|why| why.reason()),
            Some("signature_unknown_key")
        );
        Ok(())
    }

    #[test]
    fn a_key_is_given_as_text_or_as_a_file() -> Result<()> {
        let key = VendorKey::generate()?.public();
        assert_eq!(public_key(&key.to_string())?, key);
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("vendor.pub");
        std::fs::write(&path, key.to_pem()?)?;
        assert_eq!(public_key(&path.to_string_lossy())?, key);
        let refused = public_key("nowhere.pub").err();
        let refused = refused.map(|why| why.to_string()).unwrap_or_default();
        assert!(refused.contains("neither a file nor a key"), "{refused}");
        Ok(())
    }

    #[test]
    fn an_endless_file_is_not_read_to_its_end() {
        assert!(read_limited(Path::new("/dev/zero")).is_err());
    }
}
