//! A vendor's ed25519 keys: making one, its files, its public half as text. Signing
//! and trust stand beside this file.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cartridge::Digest;

/// No key file of ours is longer.
const MAX_PEM: usize = 4 << 10;

/// Why a key cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read or made.
    #[error("the key file: {0}")]
    File(#[from] std::io::Error),
    /// The system gave no randomness.
    #[error("the system gives no randomness: {0}")]
    Randomness(String),
    /// Not a key in one of the two forms.
    #[error("this is no ed25519 key: {0}")]
    Malformed(String),
}

fn malformed(error: impl fmt::Display) -> KeyError {
    KeyError::Malformed(error.to_string())
}

/// The private half: signs. Wiped from memory when dropped, never printed.
pub struct VendorKey(SigningKey);

impl VendorKey {
    /// Makes a key from the system's randomness.
    ///
    /// # Errors
    /// [`KeyError::Randomness`].
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|e| KeyError::Randomness(e.to_string()))?;
        Ok(Self(SigningKey::from_bytes(&seed)))
    }

    /// Reads PKCS#8 PEM.
    ///
    /// # Errors
    /// [`KeyError::Malformed`].
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        SigningKey::from_pkcs8_pem(pem).map(Self).map_err(malformed)
    }

    /// Reads a file that [`VendorKey::create_file`] or another tool wrote.
    ///
    /// # Errors
    /// [`KeyError`] when it cannot be read or is no key.
    pub fn read_file(path: &Path) -> Result<Self, KeyError> {
        let pem = std::fs::read_to_string(path)?;
        if pem.len() > MAX_PEM {
            return Err(KeyError::Malformed("the file is too long".to_owned()));
        }
        Self::from_pem(&pem)
    }

    /// Writes PKCS#8 PEM to a new file that only its owner may read. A file that is
    /// there stays as it is: a lost private key does not come back.
    ///
    /// # Errors
    /// [`KeyError::File`], also when there is such a file.
    pub fn create_file(&self, path: &Path) -> Result<(), KeyError> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let pem = self.0.to_pkcs8_pem(LineEnding::LF).map_err(malformed)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(pem.as_bytes())?;
        file.sync_all()?;
        Ok(())
    }

    /// The half that operators are given.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for VendorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VendorKey({})", self.public().id())
    }
}

/// The public half. Displays as base64 of its 32 bytes, and reads that or PEM.
///
/// Invariant: a point of the curve, and none of the few weak ones, under which one
/// signature fits many messages.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// From its 32 bytes.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] when they are no point, or a weak one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let bytes: [u8; 32] = bytes
            .try_into()
            .map_err(|_| KeyError::Malformed(format!("{} bytes, not 32", bytes.len())))?;
        Self::sound(VerifyingKey::from_bytes(&bytes).map_err(malformed)?)
    }

    fn sound(key: VerifyingKey) -> Result<Self, KeyError> {
        if key.is_weak() {
            return Err(KeyError::Malformed("a weak point".to_owned()));
        }
        Ok(Self(key))
    }

    /// Its 32 bytes.
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// As PEM, with a line break at its end.
    ///
    /// # Errors
    /// [`KeyError::Malformed`], which a point of the curve does not give.
    pub fn to_pem(self) -> Result<String, KeyError> {
        self.0.to_public_key_pem(LineEnding::LF).map_err(malformed)
    }

    /// The first 16 hexadecimal digits of the SHA-256 of its bytes: short enough to
    /// read out. Names a key and proves nothing.
    pub fn id(self) -> String {
        hex::encode(&Digest::of(self.0.as_bytes()).0[..8])
    }

    /// Whether `signature` is this key's over `message`. Strict: a signature has one
    /// form.
    pub(crate) fn verifies(self, message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = Signature::from_bytes(signature);
        self.0.verify_strict(message, &signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.to_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        if text.len() > MAX_PEM {
            return Err(KeyError::Malformed("too long".to_owned()));
        }
        if text.starts_with("-----BEGIN") {
            return Self::sound(VerifyingKey::from_public_key_pem(text).map_err(malformed)?);
        }
        Self::from_bytes(&STANDARD.decode(text).map_err(malformed)?)
    }
}

impl TryFrom<String> for PublicKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}
