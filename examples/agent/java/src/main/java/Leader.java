import com.google.cloud.spanner.*;
import dev.spindle.agent.*;
import java.time.Duration;
import java.util.UUID;

/** Writes one fenced order after the other, while it leads: Leader DATABASE ID. */
public final class Leader {
  public static void main(String[] arguments) throws Exception {
    DatabaseId database = DatabaseId.of(arguments[0]);
    String project = database.getInstanceId().getProject();
    Spanner spanner = SpannerOptions.newBuilder().setProjectId(project).build().getService();
    DatabaseClient orders = spanner.getDatabaseClient(database);
    Agent.Options options = new Agent.Options().id(arguments[1]).lease(Duration.ofSeconds(4));
    try (Agent agent = new Agent()) {
      agent.lead("orders", options, term -> {
        while (term.isHeld()) {
          System.out.println("works " + term.token());
          Thread.sleep(500); // it prepares the order, and the process may be stopped for an hour
          try {
            // If this process dies before the commit, its transaction keeps no lock, and the next leader waits for the lease alone.
            orders.readWriteTransaction(Options.optimisticLock()).run(transaction -> {
              SpannerFence.check(transaction, term);
              transaction.buffer(order(arguments[1], term.token()));
              return null;
            });
            System.out.println("wrote " + term.token());
          } catch (FencedException | SpannerException error) {
            System.out.println((FencedException.isIn(error) ? "fenced " : "failed ") + error.getMessage());
          }
        }
      });
    }
  }

  private static Mutation order(String id, long token) {
    Mutation.WriteBuilder order = Mutation.newInsertBuilder("orders").set("id").to(UUID.randomUUID().toString());
    return order.set("leader").to(id).set("token").to(token).set("written").to(Value.COMMIT_TIMESTAMP).build();
  }
}
