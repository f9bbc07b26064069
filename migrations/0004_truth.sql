-- Truth over time: where a memory comes from and how far it is trusted, who may read it,
-- when the kernel stopped believing it, and what was decided between two that contradict.

-- A key's groups: what `readers` of a memory may name beside its actor.
alter table api_keys add column groups text[] not null default '{}';

alter table memory_objects
    -- Where it comes from. The rank is stored beside it, so that a later change of the
    -- ranks decides nothing anew.
    add column source text not null default 'conversation' constraint memory_objects_source
        check (source in ('manual', 'document', 'live-fetch', 'consolidation', 'swap-import',
                          'conversation')),
    add column trust smallint not null default 10
        constraint memory_objects_trust check (trust between 0 and 100),
    -- The highest rank of those who said it again, if it is higher: it is weighed with that one.
    -- `trust` stays what its writer's was, and the audit row of the call says who raised it, when.
    add column trust_raised smallint
        constraint memory_objects_trust_raised check (trust_raised between 1 and 100),
    add column raised_by_call text,
    -- The document's path, the episode's id.
    add column source_ref text,
    add column importer text,
    -- The language model that drew it from a text; absent when the text is verbatim.
    add column model text,
    -- Whose key wrote it, and the audit row of that call.
    add column key_id text,
    add column call_id text,
    -- Principals and groups that may read it, as `/principal/…` and `/group/…`; absent when
    -- everybody in scope may. No namespace begins with a slash, so one array bound to a
    -- statement holds a caller's namespaces and what it is a reader as.
    add column readers text[] constraint memory_objects_readers check (cardinality(readers) > 0),
    -- What it fills: a newer memory of the same slot supersedes it.
    add column slot text,
    add column slot_key bytea
        constraint memory_objects_slot_is_sha256 check (octet_length(slot_key) = 32),
    -- Canonical names of the entities it speaks of. Derived: no part of the text.
    add column entities text[] not null default '{}',
    -- The memory that it says again, after a decision was undone or a dispute resolved.
    add column restores text constraint memory_objects_restores_fk references memory_objects (id),
    -- When the kernel was told that it no longer holds. `t_valid_to` is when it ceased to.
    add column closed_at timestamptz,
    -- When it was put aside as disputed.
    add column disputed_at timestamptz,
    add constraint memory_objects_raised_whole
        check ((trust_raised is null) = (raised_by_call is null)),
    add constraint memory_objects_slot_whole check ((slot is null) = (slot_key is null)),
    add constraint memory_objects_closed_whole check ((t_valid_to is null) = (closed_at is null)),
    add constraint memory_objects_disputed_whole
        check ((status = 'disputed') = (disputed_at is not null));

-- A memory that may not leave for an embedder outside has no vector and is found by its words.
do $$ begin
    if exists (select from pg_attribute
                where attrelid = 'memory_objects'::regclass and attname = 'embedding') then
        alter table memory_objects alter column embedding drop not null;
    end if;
end $$;

-- Invariant: one namespace holds a text at most once, be it believed or disputed: what is
-- put aside must not pile up either.
drop index memory_objects_current_text_unique;
create unique index memory_objects_current_text_unique
    on memory_objects (namespace, content_key) where t_valid_to is null;
-- What was known of an earlier time and is told again.
create index memory_objects_ended_text_idx
    on memory_objects (namespace, content_key, t_valid_from) where t_valid_to is not null;
-- Invariant: a slot has at most one current memory.
create unique index memory_objects_one_in_slot
    on memory_objects (namespace, slot_key)
    where slot_key is not null and t_valid_to is null and status = 'active';
-- Walking a chain forwards.
create index memory_objects_supersedes_idx on memory_objects (supersedes)
    where supersedes is not null;
create index memory_objects_restores_idx on memory_objects (restores) where restores is not null;
-- Erasing what came from one source.
create index memory_objects_source_idx on memory_objects (namespace, source_ref)
    where source_ref is not null;

-- Without regard to case, one name is one entity of a namespace.
alter table entity_registry
    drop constraint entity_registry_name_unique,
    -- The name as the kernel folds it: `lower` depends on the locale of the database, and
    -- knows ASCII only where that is C. Absent for a name that the kernel did not register.
    add column folded text;
create unique index entity_registry_name_unique
    on entity_registry (namespace, coalesce(folded, lower(canonical)));

-- Two memories that contradict each other, and what came of it.
create table conflicts (
    id text primary key,
    namespace text not null constraint conflicts_namespace check (namespace <> ''),
    incoming text not null constraint conflicts_incoming_fk references memory_objects (id),
    incumbent text not null constraint conflicts_incumbent_fk references memory_objects (id),
    -- superseded: the incumbent was closed. historical: the incoming tells of an earlier
    -- time and was closed where the incumbent begins. disputed: the incoming is put aside.
    -- review: nothing was done, somebody has to decide.
    decision text not null constraint conflicts_decision
        check (decision in ('superseded', 'historical', 'disputed', 'review')),
    -- Who found it: a model, or `caller` where the write itself named its predecessor.
    found_by text not null,
    decided_at timestamptz not null,
    -- accept, reject, both, undo; retold where a source of higher rank than the incoming's says
    -- the same: that is weighed anew. Absent while it can still be resolved.
    resolution text constraint conflicts_resolution
        check (resolution in ('accept', 'reject', 'both', 'undo', 'retold')),
    resolved_by text,
    resolved_at timestamptz,
    constraint conflicts_resolved_whole
        check ((resolution is null) = (resolved_by is null)
           and (resolution is null) = (resolved_at is null))
);
-- Invariant: a pair is decided once, in whichever order: a job that runs twice decides nothing
-- twice, and neither do the checks of both at the same time.
create unique index conflicts_pair_unique
    on conflicts (least(incoming, incumbent), greatest(incoming, incumbent));
create index conflicts_incoming_idx on conflicts (incoming);
create index conflicts_namespace_idx on conflicts (namespace, id desc);
create index conflicts_incumbent_idx on conflicts (incumbent);

-- Tokens that a namespace spent on the language model, a day each (UTC).
create table model_usage (
    namespace text not null,
    day date not null,
    calls bigint not null default 0,
    tokens bigint not null default 0,
    primary key (namespace, day)
);

-- What was erased: the id and nothing of what it said.
create table tombstones (
    memory_id text primary key,
    namespace text not null,
    erased_at timestamptz not null,
    call_id text not null
);
create trigger tombstones_append_only before update or delete or truncate on tombstones
    for each statement execute function audit_append_only();

-- Erasures of sources and namespaces, in the order in which a tenant made them, for calls that
-- were under way: of a source there is its SHA-256 and no name.
create table erasures (
    id bigint generated always as identity primary key,
    tenant text not null,
    namespace text not null,
    source_key bytea
);
create index erasures_tenant_idx on erasures (tenant, id);
create trigger erasures_append_only before update or delete or truncate on erasures
    for each statement execute function audit_append_only();
