-- Memory, its scope and its policy. The audit log is in 0002.
--
-- Names follow the field: bi-temporal columns (event, assertion, validity), a
-- supersedence chain, a tsvector of stems. The two `embedding` columns are added
-- at first boot, since their dimension is the embedder's.

create extension if not exists vector;

-- What was fixed at first boot and must not change under the stored vectors.
create table kernel_settings (
    singleton boolean primary key default true
        constraint kernel_settings_one_row check (singleton),
    -- Names the vector space: embedder, model, dimension.
    embedder text not null,
    dimension integer not null
        constraint kernel_settings_dimension check (dimension between 1 and 16000),
    created_at timestamptz not null default now()
);

-- Who may call. The key itself is never stored, only its SHA-256.
create table api_keys (
    id text primary key,
    key_hash bytea not null
        constraint api_keys_hash_unique unique
        constraint api_keys_hash_is_sha256 check (octet_length(key_hash) = 32),
    -- The first characters of the key, so that a person can tell keys apart.
    hint text not null,
    namespace text not null constraint api_keys_namespace check (namespace <> ''),
    actor text not null constraint api_keys_actor check (actor <> ''),
    role text not null constraint api_keys_role
        check (role in ('agent', 'member', 'auditor', 'admin', 'owner')),
    created_at timestamptz not null,
    expires_at timestamptz,
    -- Set once. A revoked key keeps its row: the audit log names it.
    revoked_at timestamptz
);
create index api_keys_namespace_idx on api_keys (namespace text_pattern_ops);

-- Every version of every namespace's policy; the highest version holds.
create table policies (
    namespace text not null constraint policies_namespace check (namespace <> ''),
    version integer not null constraint policies_version check (version > 0),
    doc jsonb not null,
    set_by text not null,
    set_at timestamptz not null,
    primary key (namespace, version)
);

create table memory_objects (
    -- A ULID made by the kernel: sorts by time of assertion.
    id text primary key constraint memory_objects_id_is_ulid check (length(id) = 26),
    namespace text not null constraint memory_objects_namespace check (namespace <> ''),
    actor text not null,
    kind text not null constraint memory_objects_kind
        check (kind in ('fact', 'preference', 'episode', 'entity', 'pointer')),
    content text not null constraint memory_objects_content check (content <> ''),
    -- SHA-256 of the normal form: the same text in other spacing or case is the same fact.
    content_key bytea not null
        constraint memory_objects_key_is_sha256 check (octet_length(content_key) = 32),
    -- Stems without positions, made by the kernel, so that preselection and the
    -- cartridges' BM25 agree on what a word is.
    lexemes tsvector not null,
    status text not null default 'active' constraint memory_objects_status
        check (status in ('active', 'disputed')),
    -- When the thing described happened.
    event_time timestamptz,
    -- When the kernel was told.
    assertion_time timestamptz not null,
    -- The interval over which the row is believed; open while current.
    t_valid_from timestamptz not null,
    t_valid_to timestamptz,
    supersedes text constraint memory_objects_supersedes_fk references memory_objects (id),
    -- Protection label, on every row, whichever lane it came by.
    classification jsonb not null,
    -- What the writer attached. Never an identity.
    metadata jsonb,
    access_count bigint not null default 0,
    fault_count bigint not null default 0,
    last_accessed timestamptz,
    constraint memory_objects_interval check (t_valid_to is null or t_valid_to >= t_valid_from)
);
-- Invariant: one namespace believes a text at most once.
create unique index memory_objects_current_text_unique
    on memory_objects (namespace, content_key)
    where t_valid_to is null and status = 'active';
-- Invariant: a memory has at most one current successor.
create unique index memory_objects_one_successor
    on memory_objects (supersedes)
    -- Not null, so that no plan takes it for an index over all that is visible.
    where supersedes is not null and t_valid_to is null and status = 'active';
-- The visible rows of a caller, newest first.
create index memory_objects_visible_idx
    on memory_objects (namespace, id desc)
    where t_valid_to is null and status = 'active';
-- Without a pending list: a search must not pay for the writes before it.
create index memory_objects_lexemes_idx on memory_objects using gin (lexemes)
    with (fastupdate = off);

-- The cold tier: summaries of documents.
create table concepts (
    id text primary key,
    namespace text not null constraint concepts_namespace check (namespace <> ''),
    path text not null,
    title text not null,
    summary text not null,
    updated_at timestamptz not null,
    constraint concepts_path_unique unique (namespace, path)
);

-- Who and what is spoken of, under which names.
create table entity_registry (
    id text primary key,
    namespace text not null constraint entity_registry_namespace check (namespace <> ''),
    canonical text not null constraint entity_registry_canonical check (canonical <> ''),
    aliases text[] not null default '{}',
    created_at timestamptz not null,
    constraint entity_registry_name_unique unique (namespace, canonical)
);
