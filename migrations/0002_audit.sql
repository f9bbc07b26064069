-- The audit log: one row for each syscall, and the hash chain over them.
--
-- Rows are inserted unchained, in the transaction of the work that they describe
-- or in a group commit, and chained later by one sequencer. Both tables only grow.

create table audit_log (
    seq bigint generated always as identity primary key,
    -- The inserting transaction: the sequencer's watermark. A sequence number
    -- would skip a transaction that commits late.
    xid xid8 not null default pg_current_xact_id(),
    -- Invariant: one syscall, one row. Also makes a retried insert harmless.
    call_id text not null constraint audit_log_one_row_per_call unique,
    ts timestamptz not null,
    actor text not null,
    agent_id text not null,
    key_id text,
    op text not null,
    memory_id text,
    namespace text not null,
    -- The query, cut to 200 characters; absent when marked sensitive.
    purpose text,
    result text not null constraint audit_log_result
        check (result in ('ok', 'denied', 'miss', 'error')),
    detail text,
    -- The exact RFC 8785 bytes that were hashed.
    canonical bytea not null
);
create index audit_log_watermark_idx on audit_log (xid, seq);
create index audit_log_namespace_idx on audit_log (namespace text_pattern_ops, seq desc);

create table audit_chain (
    -- Gap-free from 0, in order of (xid, seq).
    idx bigint primary key constraint audit_chain_idx check (idx >= 0),
    seq bigint not null
        constraint audit_chain_seq_unique unique
        constraint audit_chain_seq_fk references audit_log (seq),
    xid xid8 not null,
    leaf bytea not null,
    hash bytea not null
);

create function audit_append_only() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end
$$;
create trigger audit_log_append_only before update or delete or truncate on audit_log
    for each statement execute function audit_append_only();
create trigger audit_chain_append_only before update or delete or truncate on audit_chain
    for each statement execute function audit_append_only();
