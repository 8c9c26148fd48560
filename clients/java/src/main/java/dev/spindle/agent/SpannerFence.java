package dev.spindle.agent;

import com.google.cloud.Timestamp;
import com.google.cloud.spanner.ResultSet;
import com.google.cloud.spanner.Statement;
import com.google.cloud.spanner.TransactionContext;

/** The fence for transactions of Google's client, which this class alone needs. */
public final class SpannerFence {
  private SpannerFence() {}

  /**
   * Fails unless the term is still the lock's. The transaction, which must be serializable, commits before the next
   * term begins, or not at all.
   */
  public static void check(TransactionContext transaction, Term term) {
    Term.Fence fence = term.fence();
    Statement statement =
        Statement.newBuilder(fence.sql())
            .bind("lock").to(fence.lock())
            .bind("timestamp").to(Timestamp.parseTimestamp(fence.timestamp()))
            .bind("writer").to(fence.writer())
            .build();
    try (ResultSet found = transaction.executeQuery(statement)) {
      if (!found.next()) {
        throw new FencedException(term);
      }
    }
  }
}
