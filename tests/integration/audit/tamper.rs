//! Somebody with full rights on the database alters rows; the verifier says which.

use halofy_tests::{Kernel, Role};

use super::settled;

/// A column of one of the two tables, and the row that is tampered with in it.
struct Target {
    table: &'static str,
    column: String,
    kind: String,
    /// Finds the row before and after the flip: never by the flipped column.
    found_by: String,
}

/// How a fault may name the tampered row.
struct Row {
    seq: i64,
    index: i64,
    call_id: String,
}

#[tokio::test]
async fn a_flip_of_any_column_is_found_and_its_row_is_named() {
    let kernel = trail().await;
    let row = middle_row(&kernel).await;
    let targets = targets(&kernel, &row).await;
    assert!(targets.len() >= 14 + 5, "both tables have their columns");
    for target in &targets {
        let before = flip(&kernel, target).await;
        let report = kernel.verify().await;
        let what = format!("{}.{}", target.table, target.column);
        assert!(!report.ok, "a flip of {what} goes unseen");
        let names_it = report.faults.iter().any(|fault| {
            fault.seq == Some(row.seq)
                || fault.index == Some(row.index)
                || fault.call_id.as_deref() == Some(&row.call_id)
        });
        assert!(
            names_it,
            "a flip of {what} is found, and not its row: {:?}",
            report.faults
        );
        restore(&kernel, target, before).await;
        let report = kernel.verify().await;
        assert!(report.ok, "after {what} is as it was: {:?}", report.faults);
    }
}

#[tokio::test]
async fn a_deleted_row_in_the_middle_is_found() {
    let kernel = trail().await;
    let row = middle_row(&kernel).await;
    as_superuser(
        &kernel,
        &format!("delete from audit_log where seq = {}", row.seq),
    )
    .await;
    let report = kernel.verify().await;
    assert!(
        report
            .faults
            .iter()
            .any(|fault| fault.index == Some(row.index)),
        "{report:?}"
    );
    as_superuser(
        &kernel,
        &format!("delete from audit_chain where idx = {}", row.index),
    )
    .await;
    let report = kernel.verify().await;
    assert!(
        report
            .faults
            .iter()
            .any(|fault| fault.index == Some(row.index + 1)),
        "{report:?}"
    );
}

#[tokio::test]
async fn both_tables_refuse_to_be_altered() {
    let kernel = trail().await;
    for sql in [
        "update audit_log set actor = 'user:eve'",
        "update audit_log set actor = actor where false",
        "delete from audit_log",
        "truncate audit_log cascade",
        "update audit_chain set idx = idx + 1",
        "delete from audit_chain where idx = 0",
        "truncate audit_chain",
    ] {
        let refused = kernel.try_sql(sql).await.expect_err(sql);
        assert!(
            refused.to_string().contains("is append-only"),
            "{sql}: {refused}"
        );
    }
    settled(&kernel).await;
}

/// Ten rows of several kinds, all chained.
async fn trail() -> Kernel {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    for at in 0..3 {
        let id = dana
            .write(&format!("Fact {at} is on file."))
            .await
            .id()
            .to_owned();
        dana.search("which fact?").await.expect_status(200);
        dana.read(&id).await.expect_status(200);
    }
    settled(&kernel).await;
    kernel
}

/// The row of a search: it has a purpose, and rows before and after it.
async fn middle_row(kernel: &Kernel) -> Row {
    let sql = "select l.seq, c.idx, l.call_id from audit_log l join audit_chain c on c.seq = l.seq
                where l.op = 'search' order by c.idx limit 1";
    let rows = kernel.sql(sql).await;
    let value = |at: usize| rows[0][at].clone().expect("a value");
    let number = |at: usize| value(at).parse().expect("a number");
    let row = Row {
        seq: number(0),
        index: number(1),
        call_id: value(2),
    };
    assert!(row.index > 0);
    row
}

/// Every column that the two tables have now, also one that a migration adds.
async fn targets(kernel: &Kernel, row: &Row) -> Vec<Target> {
    let mut targets = Vec::new();
    for (table, by, other) in [
        (
            "audit_log",
            ("call_id", format!("'{}'", row.call_id)),
            ("seq", row.seq.to_string()),
        ),
        (
            "audit_chain",
            ("seq", row.seq.to_string()),
            ("idx", row.index.to_string()),
        ),
    ] {
        let sql = format!(
            "select column_name, data_type from information_schema.columns
              where table_name = '{table}' order by ordinal_position"
        );
        for column in kernel.sql(sql).await {
            let name = column[0].clone().expect("a name");
            let (key, value) = if name == by.0 { &other } else { &by };
            targets.push(Target {
                table,
                found_by: format!("{key} = {value}"),
                column: name,
                kind: column[1].clone().expect("a type"),
            });
        }
    }
    // An identity column takes no value of a person's, until somebody with rights says so.
    as_superuser(
        kernel,
        "alter table audit_log alter column seq set generated by default",
    )
    .await;
    targets
}

/// Alters the column in the row, and gives what stood there.
async fn flip(kernel: &Kernel, target: &Target) -> Option<String> {
    let Target {
        table,
        column,
        kind,
        found_by,
    } = target;
    let mut rows = kernel
        .sql(format!(
            "select {column}::text from {table} where {found_by}"
        ))
        .await;
    let before = rows.remove(0).remove(0);
    let altered = match kind.as_str() {
        // The one text with few legal values.
        "text" if column == "result" => "'denied'".to_owned(),
        "text" => format!("coalesce({column}, '') || 'x'"),
        "bigint" => format!("{column} + 1000"),
        "xid8" => format!("({column}::text::bigint + 1)::text::xid8"),
        "timestamp with time zone" => format!("{column} + interval '1 microsecond'"),
        "bytea" => format!("set_byte({column}, 0, get_byte({column}, 0) # 1)"),
        other => panic!("{table}.{column} has the new type {other}; say how to flip it"),
    };
    as_superuser(
        kernel,
        &format!("update {table} set {column} = {altered} where {found_by}"),
    )
    .await;
    before
}

async fn restore(kernel: &Kernel, target: &Target, before: Option<String>) {
    let Target {
        table,
        column,
        kind,
        found_by,
    } = target;
    let value = before.map_or("null".to_owned(), |text| {
        format!("'{}'::{kind}", text.replace('\'', "''"))
    });
    as_superuser(
        kernel,
        &format!("update {table} set {column} = {value} where {found_by}"),
    )
    .await;
}

/// Runs a statement as somebody who switches triggers and foreign keys off.
async fn as_superuser(kernel: &Kernel, sql: &str) {
    let off = "set local session_replication_role = replica";
    kernel.sql(format!("begin; {off}; {sql}; commit")).await;
}
