// One idle worker of pg-boss, which is asked for one pick-up at a time, as pick_up.py: node pick_up_pg_boss.cjs URL.
// NODE_PATH names the node_modules with pg-boss. It polls twice a second, which is as often as it allows.
const PgBoss = require("pg-boss");
const readline = require("readline");

async function main(url) {
  const boss = new PgBoss(url);
  let arrived = () => {};
  await boss.start();
  await boss.createQueue("peer");
  await boss.work("peer", { pollingIntervalSeconds: 0.5 }, async () => arrived(performance.now()));
  console.log("ready");
  for await (const _ of readline.createInterface({ input: process.stdin })) {
    const at = new Promise((resolve) => (arrived = resolve));
    const begin = performance.now();
    await boss.send("peer", {});
    console.log((await at) - begin);
  }
  process.exit(0);
}

main(process.argv[2]);
