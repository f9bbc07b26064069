//! Detached signatures over components: their file, making one, and whether to trust
//! one. Everything here works on bytes and reads no WebAssembly, so that an unknown
//! sender's bytes meet no parser; only signing reads the vendor's own component.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::admission;
use crate::cartridge::Digest;
use crate::error::LoadError;
use crate::keys::{PublicKey, VendorKey};
use crate::manifest::{Manifest, is_driver_name};

/// The world that a signature is for: a cartridge of another version is another
/// promise.
pub const WORLD: &str = "halofy:driver@1.0.0";

const ALGORITHM: &str = "ed25519";
/// Keeps a signature from being one over anything else that a vendor signs.
const DOMAIN: &[u8] = b"halofy-cartridge-signature-v1\0";
/// A manifest has at most 16 KiB; the rest is fixed.
const MAX_FILE: usize = 64 << 10;

/// Why a component's signature does not let it in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// Larger than a component may be. Nothing was hashed.
    #[error("the component has more than {limit} bytes")]
    TooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// There is no signature, and the policy wants one.
    #[error(
        "the component is not signed: sign it with `halofy cartridge sign`, and send the \
         signature with it"
    )]
    Unsigned,
    /// Truncated, not JSON, or a field that cannot be what it says.
    #[error("the signature file is malformed: {0}")]
    Malformed(String),
    /// For another version of the contract.
    #[error("the signature is for {found:?}, this kernel runs {WORLD}")]
    OtherWorld {
        /// The world that was signed for.
        found: String,
    },
    /// Of another component.
    #[error(
        "the signature is for sha256:{signed}, these bytes are sha256:{found}: sign again \
         after each build"
    )]
    OtherBytes {
        /// What was signed.
        signed: Digest,
        /// What was sent.
        found: Digest,
    },
    /// By a key that no operator listed.
    #[error(
        "the key {key_id} is not trusted here: its owner sends the public half, and an \
         operator lists it with `halofy trust add`"
    )]
    UnknownKey {
        /// [`PublicKey::id`] of the key that the file names.
        key_id: String,
    },
    /// Not made by the key that it names, or over something else.
    #[error("the signature is not one of the key {key_id} over this world, component and manifest")]
    WrongKey {
        /// [`PublicKey::id`] of the key that the file names.
        key_id: String,
    },
    /// By a key that an operator revoked.
    #[error("the key {key_id} of {vendor} is revoked")]
    RevokedKey {
        /// [`PublicKey::id`] of the key.
        key_id: String,
        /// Whose it was.
        vendor: String,
    },
    /// By a key that may not sign drivers of this name.
    #[error(
        "the key {key_id} may not sign a driver named {name:?}: an operator lists the names \
         of a key with `halofy trust add --names`"
    )]
    NameNotAllowed {
        /// [`PublicKey::id`] of the key.
        key_id: String,
        /// The manifest's name.
        name: String,
    },
    /// The component carries another manifest than the signed one.
    #[error(
        "the component carries another manifest than the one that was signed: sign again \
         after each build"
    )]
    OtherManifest,
}

impl SignatureError {
    /// A stable word for audit rows and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Unsigned => "unsigned",
            Self::Malformed(_) => "signature_malformed",
            Self::OtherWorld { .. } => "signature_other_world",
            Self::OtherBytes { .. } => "signature_other_bytes",
            Self::UnknownKey { .. } => "signature_unknown_key",
            Self::WrongKey { .. } => "signature_wrong_key",
            Self::RevokedKey { .. } => "signature_revoked_key",
            Self::NameNotAllowed { .. } => "signature_name_not_allowed",
            Self::OtherManifest => "signature_other_manifest",
        }
    }
}

/// A detached signature: well formed, not yet believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureFile {
    public_key: PublicKey,
    world: String,
    digest: Digest,
    manifest: Manifest,
    signature: [u8; 64],
}

/// The file's JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    algorithm: String,
    key_id: String,
    public_key: PublicKey,
    world: String,
    digest: String,
    manifest: Manifest,
    signature: String,
}

impl SignatureFile {
    /// Signs a component with its embedded manifest.
    ///
    /// # Errors
    /// [`LoadError`] when a kernel would not admit it, or it has no manifest: there
    /// is nothing that a name could be bound to.
    pub fn sign(component: &[u8], key: &VendorKey, limit: usize) -> Result<Self, LoadError> {
        let manifest = admission::admit(component, limit)?.manifest;
        let manifest = manifest.ok_or_else(|| {
            LoadError::Manifest("there is none, and only a manifest binds a name".to_owned())
        })?;
        let (world, digest) = (WORLD.to_owned(), Digest::of(component));
        let message = message(&world, digest, &manifest)?;
        Ok(Self {
            public_key: key.public(),
            world,
            digest,
            manifest,
            signature: key.sign(&message),
        })
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`SignatureError::Malformed`].
    pub fn parse(json: &[u8]) -> Result<Self, SignatureError> {
        let bad = |why: String| SignatureError::Malformed(why);
        if json.len() > MAX_FILE {
            return Err(bad(format!("longer than {MAX_FILE} bytes")));
        }
        let wire: Wire = serde_json::from_slice(json).map_err(|e| bad(e.to_string()))?;
        if wire.algorithm != ALGORITHM {
            return Err(bad(format!("the algorithm {:?}", wire.algorithm)));
        }
        if wire.key_id != wire.public_key.id() {
            return Err(bad("keyId is not that of publicKey".to_owned()));
        }
        wire.manifest.check().map_err(|e| bad(e.to_string()))?;
        let mut digest = Digest([0; 32]);
        hex::decode_to_slice(&wire.digest, &mut digest.0)
            .map_err(|e| bad(format!("digest: {e}")))?;
        let signature = STANDARD
            .decode(&wire.signature)
            .map_err(|e| bad(format!("signature: {e}")))?;
        let signature = signature
            .try_into()
            .map_err(|_| bad("signature: not 64 bytes".to_owned()))?;
        Ok(Self {
            public_key: wire.public_key,
            world: wire.world,
            digest,
            manifest: wire.manifest,
            signature,
        })
    }

    /// Reads at most as much as such a file may have.
    ///
    /// # Errors
    /// The reader's, or [`SignatureError::Malformed`] inside.
    pub fn read(reader: impl Read) -> std::io::Result<Result<Self, SignatureError>> {
        let mut json = Vec::new();
        reader.take(MAX_FILE as u64 + 1).read_to_end(&mut json)?;
        Ok(Self::parse(&json))
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let wire = Wire {
            algorithm: ALGORITHM.to_owned(),
            key_id: self.public_key.id(),
            public_key: self.public_key,
            world: self.world.clone(),
            digest: self.digest.to_string(),
            manifest: self.manifest.clone(),
            signature: STANDARD.encode(self.signature),
        };
        // Strings, numbers and maps with string keys: always JSON.
        serde_json::to_string_pretty(&wire).unwrap_or_default()
    }

    /// The key that the file names.
    pub fn public_key(&self) -> PublicKey {
        self.public_key
    }

    /// The component that the file names.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The manifest that the file names.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether these bytes were signed by the key that the file names, whoever that
    /// is. Trust is asked of [`Trust::check`].
    ///
    /// # Errors
    /// [`SignatureError`] for another world, other bytes, another key.
    pub fn verify(&self, component: &[u8]) -> Result<(), SignatureError> {
        let key_id = self.public_key.id();
        if self.world != WORLD {
            let found = self.world.clone();
            return Err(SignatureError::OtherWorld { found });
        }
        let (signed, found) = (self.digest, Digest::of(component));
        if signed != found {
            return Err(SignatureError::OtherBytes { signed, found });
        }
        let message = message(&self.world, self.digest, &self.manifest)
            .map_err(|e| SignatureError::Malformed(e.to_string()))?;
        if !self.public_key.verifies(&message, &self.signature) {
            return Err(SignatureError::WrongKey { key_id });
        }
        Ok(())
    }
}

/// What is signed. Each part is preceded by its length, so that no two triples give
/// the same bytes.
fn message(world: &str, digest: Digest, manifest: &Manifest) -> Result<Vec<u8>, LoadError> {
    let manifest = serde_json_canonicalizer::to_vec(manifest)
        .map_err(|e| LoadError::Manifest(e.to_string()))?;
    let mut message = DOMAIN.to_vec();
    for part in [world.as_bytes(), &digest.0, &manifest] {
        message.extend((part.len() as u64).to_be_bytes());
        message.extend(part);
    }
    Ok(message)
}

/// A vendor's key that an operator listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedKey {
    /// The operator's own name for the row.
    pub id: String,
    /// Whose it is, as the operator knows them.
    pub vendor: String,
    /// What signatures are verified with.
    pub public_key: PublicKey,
    /// The drivers that it may sign: names, or beginnings such as `acme-*`. `*` is
    /// any name; none is none.
    pub names: Vec<String>,
    /// Signatures of it are refused.
    pub revoked: bool,
}

impl TrustedKey {
    /// Whether the key may sign drivers of that name.
    pub fn may_sign(&self, name: &str) -> bool {
        self.names
            .iter()
            .any(|allowed| match allowed.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == allowed,
            })
    }

    /// Whether `pattern` can stand in [`TrustedKey::names`].
    pub fn is_name_pattern(pattern: &str) -> bool {
        pattern == "*" || is_driver_name(pattern.strip_suffix('*').unwrap_or(pattern))
    }
}

/// What a kernel lets in.
#[derive(Debug, Clone, Copy)]
pub struct Trust<'a> {
    /// Keys that operators listed, revoked ones included.
    pub keys: &'a [TrustedKey],
    /// Whether a component without a signature passes.
    pub allow_unsigned: bool,
    /// The largest component, in bytes: [`Limits::component`](crate::Limits::component).
    pub limit: usize,
}

/// On whose word a component was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A trusted key signed it.
    Signed {
        /// [`TrustedKey::id`].
        key: String,
        /// [`TrustedKey::vendor`].
        vendor: String,
        /// What the component must say about itself.
        manifest: Box<Manifest>,
    },
    /// Nobody's: the policy allows that.
    Unsigned,
}

impl Trust<'_> {
    /// Decides over the bytes alone. A signature that is there must hold, also where
    /// unsigned components pass.
    ///
    /// # Errors
    /// [`SignatureError`], one for each way in which trust is missing.
    pub fn check(
        &self,
        component: &[u8],
        signature: Option<&SignatureFile>,
    ) -> Result<Verdict, SignatureError> {
        if component.len() > self.limit {
            return Err(SignatureError::TooLarge { limit: self.limit });
        }
        let Some(signature) = signature else {
            return match self.allow_unsigned {
                true => Ok(Verdict::Unsigned),
                false => Err(SignatureError::Unsigned),
            };
        };
        signature.verify(component)?;
        self.trusted(signature)
    }

    fn trusted(&self, signature: &SignatureFile) -> Result<Verdict, SignatureError> {
        let public_key = signature.public_key;
        let key_id = public_key.id();
        let mut keys = self.keys.iter().filter(|key| key.public_key == public_key);
        // The same key may be listed twice; one revocation is enough.
        if let Some(revoked) = keys.clone().find(|key| key.revoked) {
            let vendor = revoked.vendor.clone();
            return Err(SignatureError::RevokedKey { key_id, vendor });
        }
        if keys.clone().next().is_none() {
            return Err(SignatureError::UnknownKey { key_id });
        }
        let name = &signature.manifest.name;
        match keys.find(|key| key.may_sign(name)) {
            Some(key) => Ok(Verdict::Signed {
                key: key.id.clone(),
                vendor: key.vendor.clone(),
                manifest: Box::new(signature.manifest.clone()),
            }),
            None => Err(SignatureError::NameNotAllowed {
                key_id,
                name: name.clone(),
            }),
        }
    }
}

impl Verdict {
    /// Compares the manifest that was signed with the one that was found inside.
    ///
    /// # Errors
    /// [`SignatureError::OtherManifest`].
    pub fn check_manifest(&self, embedded: Option<&Manifest>) -> Result<(), SignatureError> {
        match self {
            Self::Signed { manifest, .. } if embedded != Some(manifest.as_ref()) => {
                Err(SignatureError::OtherManifest)
            }
            _ => Ok(()),
        }
    }
}

/// Reads a component, and no more of it than may be admitted: of an endless file,
/// `limit` bytes and one.
///
/// # Errors
/// The reader's, or [`SignatureError::TooLarge`] inside.
pub fn read_component(
    reader: impl Read,
    limit: usize,
) -> std::io::Result<Result<Vec<u8>, SignatureError>> {
    let mut bytes = Vec::new();
    reader.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Ok(Err(SignatureError::TooLarge { limit }));
    }
    Ok(Ok(bytes))
}
