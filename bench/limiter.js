// limiter.js CLIENTS SECONDS - rate-limiter-flexible on PostgreSQL, through its own client
const { RateLimiterPostgres } = require('rate-limiter-flexible');
const { Pool } = require('pg');

const [clients, seconds] = process.argv.slice(2).map(Number);
const pool = new Pool({ max: clients });
const limiter = new RateLimiterPostgres(
  { storeClient: pool, points: 1e9, duration: 3600, tableName: 'limiter', keyPrefix: '' },
  async (err) => {
    if (err) throw err;
    await limiter.consume('hot');
    const end = Date.now() + seconds * 1000;
    let calls = 0;
    const caller = async () => {
      while (Date.now() < end) {
        await limiter.consume('hot');
        calls++;
      }
    };
    const start = Date.now();
    await Promise.all(Array.from({ length: clients }, caller));
    console.log(calls / ((Date.now() - start) / 1000));
    await pool.end();
    process.exit(0);
  },
);
