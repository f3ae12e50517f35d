// A process of pg-boss, as pick_up.py is of other peers: node pick_up_pg_boss.cjs DATABASE_URL work|publish.
// NODE_PATH names the node_modules with pg-boss. It polls twice a second, which is as often as it allows.
const PgBoss = require("pg-boss");
const readline = require("readline");

// In seconds, by the clock that Python's perf_counter reads.
const now = () => Number(process.hrtime.bigint()) / 1e9;

async function main(url, role) {
  const boss = new PgBoss(url);
  await boss.start();
  await boss.createQueue("peer");
  if (role === "work") {
    await boss.work("peer", { pollingIntervalSeconds: 0.5 }, async () => console.log(now()));
  }
  console.log("ready");
  for await (const _ of readline.createInterface({ input: process.stdin })) {
    const begin = now();
    await boss.send("peer", {});
    console.log(begin);
  }
  process.exit(0);
}

main(...process.argv.slice(2));
