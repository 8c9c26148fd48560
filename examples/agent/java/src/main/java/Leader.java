import com.google.cloud.spanner.DatabaseClient;
import com.google.cloud.spanner.DatabaseId;
import com.google.cloud.spanner.Mutation;
import com.google.cloud.spanner.Options;
import com.google.cloud.spanner.Spanner;
import com.google.cloud.spanner.SpannerException;
import com.google.cloud.spanner.SpannerOptions;
import com.google.cloud.spanner.Value;
import java.util.UUID;

/** Writes one fenced order after the other, while it leads: Leader DATABASE ID. */
public final class Leader {
  public static void main(String[] arguments) throws InterruptedException {
    DatabaseId database = DatabaseId.of(arguments[0]);
    String project = database.getInstanceId().getProject();
    Spanner spanner = SpannerOptions.newBuilder().setProjectId(project).build().getService();
    DatabaseClient orders = spanner.getDatabaseClient(database);
    SpindleAgent leader = new SpindleAgent(System.getenv("SPINDLE_AGENT"), "orders", arguments[1]);
    while (true) {
      SpindleAgent.Term term = leader.term();
      if (term == null) {
        Thread.sleep(50);
        continue;
      }
      System.out.println("works " + term.token());
      Thread.sleep(500); // it prepares the order, and the process may be stopped for an hour
      try {
        orders
            // If this process dies before the commit, its transaction keeps no lock, and the next
            // leader waits for the lease alone.
            .readWriteTransaction(Options.optimisticLock())
            .run(
                transaction -> {
                  term.check(transaction);
                  transaction.buffer(order(arguments[1], term.token()));
                  return null;
                });
        System.out.println("wrote " + term.token());
      } catch (SpindleAgent.Fenced error) {
        System.out.println("fenced " + error.getMessage());
      } catch (SpannerException error) {
        boolean isFenced = error.getCause() instanceof SpindleAgent.Fenced;
        System.out.println((isFenced ? "fenced " : "failed ") + error.getMessage());
      }
    }
  }

  private static Mutation order(String id, long token) {
    return Mutation.newInsertBuilder("orders")
        .set("id").to(UUID.randomUUID().toString())
        .set("leader").to(id)
        .set("token").to(token)
        .set("written").to(Value.COMMIT_TIMESTAMP)
        .build();
  }
}
