-- Work that outlives its call, and the answers of calls that may be made again.

create table jobs (
    -- Its ticket: `job_` and a ULID made by the kernel, so that it sorts by age.
    id text primary key constraint jobs_id_is_ticket check (id ~ '^job_[0-9A-Z]{26}$'),
    kind text not null constraint jobs_kind check (kind in ('write', 'conflict', 'embed')),
    -- Where its effects go, and where its ticket may be asked for.
    namespace text not null constraint jobs_namespace check (namespace <> ''),
    actor text not null,
    -- Whose call asked for it; absent for the kernel's own.
    key_id text constraint jobs_key_fk references api_keys (id),
    -- What is to be done. Gone once erased.
    payload jsonb,
    -- Which effects are there already: a later try does not repeat them.
    progress jsonb,
    state text not null default 'queued' constraint jobs_state
        check (state in ('queued', 'running', 'done', 'dead', 'cancelled')),
    -- Counted when a try begins: a job that kills its kernel dies as well.
    attempts integer not null default 0 constraint jobs_attempts check (attempts >= 0),
    max_attempts integer not null constraint jobs_max_attempts check (max_attempts > 0),
    -- Tries that ended because a service which the kernel asks was away. They count apart, since
    -- no job is to blame for them.
    waits integer not null default 0 constraint jobs_waits check (waits >= 0),
    -- No try before this moment, by the database's clock: kernels' clocks differ.
    run_after timestamptz not null default now(),
    -- Invariant: an effect of a job is committed only by the holder of this token.
    lease_token text,
    lease_until timestamptz,
    -- What its ticket answers when it is done.
    result jsonb,
    -- The memories that the result speaks of, so that erasing one finds it.
    memories text[] not null default '{}',
    -- Why the last try failed.
    error text,
    created_at timestamptz not null default now(),
    finished_at timestamptz,
    -- When payload, progress and result were taken out for good.
    erased_at timestamptz,
    constraint jobs_leased_while_running check (
        (state = 'running') = (lease_token is not null)
        and (lease_token is null) = (lease_until is null)
    ),
    constraint jobs_finished_at_its_end
        check ((state in ('done', 'dead', 'cancelled')) = (finished_at is not null)),
    constraint jobs_result_of_done check (result is null or state = 'done'),
    -- Invariant: what was erased is never run again.
    constraint jobs_erased_holds_nothing check (
        (payload is null) = (erased_at is not null)
        and (erased_at is null
             or (progress is null and result is null and memories = '{}'
                 and finished_at is not null))
    )
);
-- What is due next of each namespace, so that namespaces take turns however much one has
-- queued. Finished jobs stay out of it, so it stays small.
create index jobs_turns_idx on jobs (kind, namespace, run_after, id) where state = 'queued';
-- Leases that may have run out.
create index jobs_leases_idx on jobs (lease_until) where state = 'running';
-- What an operator watches: waiting, running, dead.
create index jobs_unsettled_idx on jobs (state) where state in ('queued', 'running', 'dead');
create index jobs_namespace_idx on jobs (namespace text_pattern_ops, id desc);
-- Erasing a memory: what is about it, and what stored it.
create index jobs_memory_idx on jobs ((payload ->> 'memory'))
    where payload ->> 'memory' is not null;
create index jobs_memories_idx on jobs using gin (memories) with (fastupdate = off)
    where memories <> '{}';
-- Erasing what came from one source.
create index jobs_source_idx on jobs ((payload ->> 'source'))
    where payload ->> 'source' is not null;
-- Jobs that went well, or were stopped, are not kept for ever: the kernel's own, and tickets.
-- That memories and audit rows are never deleted says nothing of them, since whatever they
-- did is there and audited. Dead ones stay until somebody retries them.
create index jobs_checks_ended_idx on jobs (finished_at)
    where state in ('done', 'cancelled') and key_id is null;
create index jobs_tickets_ended_idx on jobs (finished_at)
    where state in ('done', 'cancelled') and key_id is not null;

-- When the kernel was told, if that was before the memory was asserted: a write that was not
-- waited for. What was told later outweighs what was told earlier, whichever was stored first.
alter table memory_objects add column told_at timestamptz
    constraint memory_objects_told_first check (told_at <= assertion_time);

-- The calls that were made under an `Idempotency-Key`, and what they were answered.
create table idempotency_keys (
    key_id text not null constraint idempotency_keys_key_fk references api_keys (id),
    -- SHA-256 of the header: callers choose it, and may put anything in.
    idem_key bytea not null
        constraint idempotency_keys_name_is_sha256 check (octet_length(idem_key) = 32),
    op text not null,
    -- SHA-256 of the body's bytes: another body is another call.
    body_hash bytea not null
        constraint idempotency_keys_body_is_sha256 check (octet_length(body_hash) = 32),
    -- `open` is only ever seen where a call takes several transactions.
    state text not null default 'open' constraint idempotency_keys_state
        check (state in ('open', 'answered', 'erased')),
    -- JSON as it was sent. Text, since jsonb would reorder and rewrite it.
    answer text,
    -- The first call, as the audit log has it.
    call_id text not null,
    -- The job that finishes the call when its kernel does not. Checked at commit: the
    -- key is claimed before anything else is written.
    -- Gone with the job: the answer stays.
    job_id text constraint idempotency_keys_job_fk references jobs (id)
        on delete set null deferrable initially deferred,
    -- The memories that the answer speaks of, so that erasing one finds it.
    memory_ids text[] not null default '{}',
    -- The document or episode that the call told of: the answer may quote of it what became
    -- no memory.
    source_ref text,
    created_at timestamptz not null default now(),
    -- Invariant: of two calls under one key, one has its effect.
    primary key (key_id, idem_key),
    constraint idempotency_keys_answer check ((state = 'answered') = (answer is not null)),
    constraint idempotency_keys_erased_holds_nothing
        check (state <> 'erased' or (memory_ids = '{}' and source_ref is null))
);
create index idempotency_keys_job_idx on idempotency_keys (job_id) where job_id is not null;
create index idempotency_keys_memories_idx on idempotency_keys using gin (memory_ids)
    with (fastupdate = off);
