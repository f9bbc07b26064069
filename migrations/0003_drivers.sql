-- The driver registry: whose signatures count, which cartridges there are, which of
-- them are mounted. Every kernel on the database serves what these tables say.

-- Vendors' keys, as operators list them.
create table vendor_keys (
    -- The key's fingerprint.
    id text primary key,
    vendor text not null constraint vendor_keys_vendor check (vendor <> ''),
    public_key bytea not null constraint vendor_keys_ed25519 check (octet_length(public_key) = 32),
    -- The drivers that it may sign: names, or beginnings such as `acme-*`.
    names text[] not null,
    added_by text not null,
    added_at timestamptz not null,
    revoked_at timestamptz
);

create table cartridges (
    -- SHA-256 of the component.
    digest bytea primary key constraint cartridges_sha256 check (octet_length(digest) = 32),
    name text not null constraint cartridges_name check (name <> ''),
    version text not null constraint cartridges_version_present check (version <> ''),
    component bytea not null,
    -- What the component says about itself.
    manifest jsonb not null,
    -- The signature file as it came; absent when nobody signed.
    signature text,
    pushed_by text not null,
    pushed_at timestamptz not null,
    -- Invariant: one version, one content.
    constraint cartridges_one_content_per_version unique (name, version)
);
create trigger cartridges_append_only before update or delete or truncate on cartridges
    for each statement execute function audit_append_only();

-- Each row is one stay of a cartridge among the mounted ones. A bare name means the
-- open row of that name with the highest id; closing that one rolls back.
create table mounts (
    id bigint generated always as identity primary key,
    digest bytea not null constraint mounts_digest_fk references cartridges (digest),
    name text not null,
    -- The operator's limits for it, over the kernel's own.
    limits jsonb not null default '{}',
    mounted_by text not null,
    mounted_at timestamptz not null,
    quarantined_at timestamptz,
    quarantine_reason text,
    ended_at timestamptz,
    ended_because text,
    constraint mounts_quarantine_reason
        check ((quarantined_at is null) = (quarantine_reason is null)),
    constraint mounts_end_reason check ((ended_at is null) = (ended_because is null))
);
-- Invariant: a cartridge is mounted at most once at a time.
create unique index mounts_one_open on mounts (digest) where ended_at is null;

-- Counts changes of what kernels must know: mounts, keys, policies.
create table driver_registry (
    only_row boolean primary key default true constraint driver_registry_only_row check (only_row),
    revision bigint not null default 0
);
insert into driver_registry default values;
