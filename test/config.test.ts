import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SETTINGS, VARIABLES } from '../src/config/settings.ts';
import { configIn, environmentWarnings, readConfig } from '../src/config.ts';
import { BootError } from '../src/errors.ts';
import type { Compatibility } from '../src/routing/dialect.ts';

const read = (env: Record<string, string> = {}) => readConfig({ ROUTEMASTER_ROOT_KEY: 'root', ...env });

describe('the environment', () => {
  test('may be empty except for the root key', () => {
    const config = read();
    assert.equal(config.port, 3000);
    assert.equal(config.redisUrl, 'redis://localhost:6379');
    assert.equal(config.forceSsl, false);
    assert.deepEqual(config.callbackAllow, []);
    assert.equal(config.metricService, 'prometheus');
    assert.equal(config.maxEventDataBytes, 65_536);
  });

  test('has seconds as in the Ruby Routemaster; the configuration has milliseconds', () => {
    const config = read({
      ROUTEMASTER_TIMEOUT: '1.5',
      ROUTEMASTER_WORKER_LEASE: '60',
      MAX_BACKOFF_MS: '250',
    });
    assert.deepEqual([config.deliveryTimeoutMs, config.leaseMs, config.maxBackoffMs], [1500, 60_000, 250]);
  });

  test('has health damage as a negative number, as in the Ruby Routemaster', () => {
    assert.equal(read({ ROUTEMASTER_HP_DAMAGE_RATE: '-7' }).damageRate, 7);
    assert.throws(
      () => read({ ROUTEMASTER_HP_DAMAGE_RATE: '7' }),
      /ROUTEMASTER_HP_DAMAGE_RATE is "7": must be a whole number from -100 to 0/,
    );
  });

  test('has lists separated by commas or spaces', () => {
    assert.deepEqual(read({ ROUTEMASTER_CALLBACK_ALLOW: '10.0.0.0/8, ::1  127.0.0.1,' }).callbackAllow, [
      '10.0.0.0/8',
      '::1',
      '127.0.0.1',
    ]);
  });

  test('accepts several spellings of yes and no', () => {
    for (const yes of ['true', 'YES', 'on', '1']) assert.equal(read({ FORCE_SSL: yes }).forceSsl, true);
    for (const no of ['false', 'No', 'off', '0'])
      assert.equal(read({ ROUTEMASTER_SSL_VERIFY: no }).sslVerify, false);
  });

  test('forces TLS in production, unless told otherwise', () => {
    const production = { NODE_ENV: 'production', ROUTEMASTER_ROOT_KEY: '0f'.repeat(24) };
    assert.equal(read(production).forceSsl, true);
    assert.equal(read({ ...production, FORCE_SSL: 'no' }).forceSsl, false);
  });

  test('may name the variable that holds the Redis URL', () => {
    const env = { ROUTEMASTER_REDIS_URL: 'REDISCLOUD_URL', REDISCLOUD_URL: 'redis://cloud:1' };
    assert.equal(read(env).redisUrl, 'redis://cloud:1');
    assert.throws(
      () => read({ ROUTEMASTER_REDIS_URL: 'REDISCLOUD_URL' }),
      /names REDISCLOUD_URL, which is not set/,
    );
  });

  test('may have empty variables: they count as unset', () => {
    assert.deepEqual(
      read(
        Object.fromEntries(VARIABLES.map((name) => [name, name === 'ROUTEMASTER_ROOT_KEY' ? 'root' : ''])),
      ),
      read(),
    );
  });
});

describe('a wrong setting', () => {
  test('is reported with all others, by name, with its value and what it must be', () => {
    const env = {
      PORT: 'http',
      WEB_CONCURRENCY: '0',
      FORCE_SSL: 'maybe',
      ROUTEMASTER_LOG_LEVEL: 'loud',
      METRIC_COLLECTION_SERVICE: 'x',
    };
    assert.throws(
      () => readConfig(env),
      (error: Error) => {
        assert.ok(error instanceof BootError);
        for (const line of [
          / PORT is "http": must be a whole number from 0 to 65535\n/,
          / WEB_CONCURRENCY is "0": must be a whole number from 1 to 256\n/,
          / FORCE_SSL is "maybe": must be yes or no\n/,
          / ROUTEMASTER_ROOT_KEY must be set/,
          / ROUTEMASTER_LOG_LEVEL is "loud": must be one of fatal, error/,
          / METRIC_COLLECTION_SERVICE is "x": must be print, prometheus or datadog/,
        ]) {
          assert.match(error.message, line);
        }
        return true;
      },
    );
  });

  test('is reported without its value if that may be secret', () => {
    const wrong = {
      ROUTEMASTER_ROOT_KEY: 'root:hunter2',
      ROUTEMASTER_VIEWER_KEY: 'viewer:hunter2',
      ROUTEMASTER_CLIENTS: 'shop:hunter2',
      ROUTEMASTER_REDIS_CA: '-----BEGIN PRIVATE KEY----- hunter2',
      ROUTEMASTER_CALLBACK_CA: '-----BEGIN PRIVATE KEY----- hunter2',
      ROUTEMASTER_EGRESS_PROXY: 'socks://u:hunter2@proxy:1',
    };
    assert.throws(
      () => read(wrong),
      (error: Error) => {
        for (const variable of Object.keys(wrong)) assert.ok(error.message.includes(variable), variable);
        return !/hunter2/.test(error.message);
      },
    );
  });

  test('may be secret if its name says so', () => {
    const secret = Object.values(SETTINGS).filter(({ isSecret }) => isSecret);
    const named = VARIABLES.filter((name) =>
      /KEY$|TOKEN|SECRET|PASSWORD|CLIENTS$|URL$|PROXY$|_CA$/.test(name),
    );
    assert.deepEqual(secret.map(({ variable }) => variable).toSorted(), named.toSorted());
  });

  test('is reported without a password of a URL that belongs to another setting', () => {
    for (const url of ['redis://:hunter2@redis:6379', 'redis://bus:hunter2@redis/0', 'bus:hunter2@redis'])
      assert.throws(
        () => read({ PORT: `${url}/${'x'.repeat(99)}` }),
        ({ message }: Error) => /PORT is "(redis:\/\/)?…@redis/.test(message) && !message.includes('hunter2'),
      );
  });

  test('is shown with escapes for what a terminal does not show', () => {
    assert.throws(() => read({ PORT: '1\u009b\u202e\u2028' }), /PORT is "1\\u009b\\u202e\\u2028": /);
    assert.throws(() => read({ PORT: '1\u{e0001}' }), /PORT is "1\\udb40\\udc01": /);
    assert.throws(() => read({ PORT: `${'a'.repeat(49)}😀b` }), /PORT is "a{49}😀…": /);
  });

  test('is shown in one line that is not long', () => {
    assert.throws(
      () => read({ PORT: `1\n\x1b[2J${'9'.repeat(1000)}` }),
      /PORT is "1\\n\\u001b\[2J9{44}…": must be/,
    );
  });

  test('may be credentials of a proxy that are not encoded', () => {
    for (const password of ['%zz', '%ff'])
      assert.throws(
        () => read({ ROUTEMASTER_EGRESS_PROXY: `http://u:${password}@proxy:1` }),
        /EGRESS_PROXY must be a URL/,
      );
    assert.equal(
      read({ ROUTEMASTER_EGRESS_PROXY: 'http://u:%2F@proxy:1' }).egressProxy,
      'http://u:%2F@proxy:1',
    );
  });

  test('may be a token that no client can have', () => {
    for (const [clients, rule] of [
      ['shop,with:colon', /ROUTEMASTER_CLIENTS must have no colon/],
      ['shop,(removed)', /ROUTEMASTER_CLIENTS must not have the token \(removed\), .*another token/],
    ] as const)
      assert.throws(() => read({ ROUTEMASTER_CLIENTS: clients }), rule);
    assert.deepEqual(read({ ROUTEMASTER_CLIENTS: '(shop),removed' }).clients, ['(shop)', 'removed']);
  });

  test('may be a duration too long for a timer', () => {
    assert.throws(() => read({ MAX_BACKOFF_MS: '2147483648' }), /a whole number from 0 to 2147483647/);
    assert.throws(() => read({ ROUTEMASTER_TIMEOUT: '-1' }), /must be a number of seconds from 0.1 to 3600/);
    assert.throws(() => read({ PORT: '65536' }), /PORT is "65536": must be a whole number from 0 to 65535/);
    assert.throws(() => read({ ROUTEMASTER_REDIS_MAX_MEM: '1e9' }), /whole number/);
  });
});

describe('a variable that nothing reads', () => {
  test('is reported, with the setting of the nearest name', () => {
    assert.deepEqual(
      environmentWarnings({ ROUTEMASTER_LANE_LIMT: '4', ROUTEMASTER_REDISURL: 'x', PATH: '/' }),
      [
        'ROUTEMASTER_LANE_LIMT is set, but the bus has no such setting; did you mean ROUTEMASTER_LANE_LIMIT?',
        'ROUTEMASTER_REDISURL is set, but the bus has no such setting; did you mean ROUTEMASTER_REDIS_URL?',
      ],
    );
  });

  test('is reported with the setting of the same name without ROUTEMASTER_', () => {
    assert.deepEqual(environmentWarnings({ ROUTEMASTER_PORT: '3000', ROUTEMASTER_FORCE_SSL: 'no' }), [
      'ROUTEMASTER_PORT is set, but the bus has no such setting; did you mean PORT?',
      'ROUTEMASTER_FORCE_SSL is set, but the bus has no such setting; did you mean FORCE_SSL?',
    ]);
  });

  test('is reported alone if no setting has a name like it', () => {
    assert.deepEqual(environmentWarnings({ ROUTEMASTER_COLOUR_OF_THE_CONSOLE: 'red' }), [
      'ROUTEMASTER_COLOUR_OF_THE_CONSOLE is set, but the bus has no such setting',
    ]);
  });

  test('is reported if ROUTEMASTER_ itself is misspelt or in small letters', () => {
    const env = {
      ROUTMASTER_ROOT_KEY: 'x',
      routemaster_redis_url: 'x',
      ROUTER_MASTER_KEY: 'x',
      REDIS_URL: 'x',
    };
    assert.deepEqual(environmentWarnings(env), [
      'ROUTMASTER_ROOT_KEY is set, but the bus has no such setting; did you mean ROUTEMASTER_ROOT_KEY?',
      'routemaster_redis_url is set, but the bus has no such setting; did you mean ROUTEMASTER_REDIS_URL?',
    ]);
  });

  test('is never one that the bus, bin/start or rtm reads', () => {
    const names = [
      ...VARIABLES,
      'ROUTEMASTER_DATA_DIR',
      'ROUTEMASTER_BUS',
      'ROUTEMASTER_TOKEN',
      'ROUTEMASTER_SECRET',
    ];
    const env = { ...Object.fromEntries(names.map((name) => [name, 'x'])), NODE_ENV: 'test' };
    assert.deepEqual(environmentWarnings(env), []);
  });

  test('is reported if it is like a setting without ROUTEMASTER_ that is not set', () => {
    const env = {
      WEB_CONCURENCY: '2',
      FORCE_SLL: 'yes',
      NODEENV: 'production',
      DD_AGENT_HOTS: 'agent',
      PROT: '80',
      REDIS_ENV_KEY: 'REDIS_URL',
      REDIS_ULR: 'redis://one',
      max_backoff_ms: '1',
    };
    const meant = [
      'WEB_CONCURRENCY',
      'FORCE_SSL',
      'NODE_ENV',
      'DD_AGENT_HOST',
      'PORT',
      'REDIS_URL',
      'MAX_BACKOFF_MS',
    ];
    const names = Object.keys(env).filter((name) => name !== 'REDIS_ENV_KEY');
    assert.deepEqual(
      environmentWarnings(env).slice(0, -1),
      names.map((name, i) => `${name} is set, but the bus has no such setting; did you mean ${meant[i]}?`),
    );
    const right = Object.fromEntries(meant.map((name) => [name, '1']));
    assert.deepEqual(environmentWarnings({ ...env, ...right, NODE_ENV: 'production' }), []);
  });

  test('is no usual one of a shell, a container, a host or a Datadog agent', () => {
    const names = `
      PATH HOME HOSTNAME HOSTTYPE HOSTS SHELL SHLVL USER LOGNAME MAIL LANG LC_ALL TERM TZ PWD OLDPWD TMPDIR EDITOR PAGER
      DISPLAY SORT POST POET PORTS MOST COST GHOST SSH_AUTH_SOCK XDG_RUNTIME_DIR INVOCATION_ID JOURNAL_STREAM
      NOTIFY_SOCKET MAINPID NODE_VERSION NODE_OPTIONS NODE_PATH NODE_COMPILE_CACHE YARN_VERSION DYNO SOURCE_VERSION
      DATABASE_URL REDIS_URL REDIS_TLS_URL REDIS_HOST REDIS_PORT REDIS_PASSWORD PGHOST PGPORT MAX_BACKOFF FORCE_COLOR
      WEB_MEMORY RAILS_ENV APP_ENV KUBERNETES_PORT KUBERNETES_SERVICE_HOST DD_ENV DD_SERVICE DD_VERSION DD_API_KEY
      DD_HOSTNAME DD_SITE DD_DOGSTATSD_HOST DD_DOGSTATSD_URL DD_TRACE_AGENT_PORT DD_TRACE_AGENT_URL
    `;
    const env = Object.fromEntries(
      names
        .trim()
        .split(/\s+/)
        .map((name) => [name, 'x']),
    );
    assert.deepEqual(environmentWarnings(env), []);
  });
});

test('NODE_ENV is reported if it is none of the usual values, since only production is strict', () => {
  const strict = 'only "production" forces https and refuses weak keys';
  assert.deepEqual(environmentWarnings({ NODE_ENV: 'prod' }), [`NODE_ENV is "prod": ${strict}`]);
  assert.deepEqual(environmentWarnings({ RACK_ENV: 'Production' }), [`RACK_ENV is "Production": ${strict}`]);
  for (const value of ['production', 'development', 'test', ''])
    assert.deepEqual(environmentWarnings({ NODE_ENV: value }), []);
});

describe('ROUTEMASTER_WORKER_THREADS', () => {
  const threads = (env: Record<string, string>, compatibility: Compatibility) => {
    const { workerThreads, workersPerThread } = configIn(compatibility, read(env));
    return [workerThreads, workersPerThread];
  };

  test('alone counts deliveries in compatibility mode, as in the Ruby Routemaster', () => {
    for (const [deliveries, expected] of [
      [1, [1, 1]],
      [5, [1, 5]],
      [32, [1, 32]],
      [50, [2, 25]],
      [100, [4, 25]],
    ] as const)
      assert.deepEqual(threads({ ROUTEMASTER_WORKER_THREADS: String(deliveries) }, 'routemaster'), expected);
    assert.ok(Object.isFrozen(configIn('routemaster', read({ ROUTEMASTER_WORKER_THREADS: '5' }))));
  });

  test('counts threads otherwise, and beside ROUTEMASTER_WORKERS_PER_THREAD', () => {
    const env = { ROUTEMASTER_WORKER_THREADS: '5' };
    assert.deepEqual(threads(env, 'none'), [5, 32]);
    assert.deepEqual(threads({ ...env, ROUTEMASTER_WORKERS_PER_THREAD: '8' }, 'routemaster'), [5, 8]);
    assert.deepEqual(threads({}, 'routemaster'), [2, 32]);
  });
});

describe('a variable of the Ruby Routemaster', () => {
  test('are named in errors by the name that is set', () => {
    assert.throws(() => read({ PUMA_WORKERS: '0' }), /\n {2}PUMA_WORKERS is "0": /);
    assert.throws(() => read({ PUMA_WORKERS: '2', WEB_CONCURRENCY: '0' }), /\n {2}WEB_CONCURRENCY is "0": /);
  });

  test('counts under its old name while the new one is not set', () => {
    const old = { RACK_ENV: 'test', PUMA_WORKERS: '3' };
    assert.deepEqual([read(old).environment, read(old).webProcesses], ['test', 3]);
    const both = { ...old, NODE_ENV: 'development', WEB_CONCURRENCY: '2' };
    assert.deepEqual([read(both).environment, read(both).webProcesses], ['development', 2]);
    assert.deepEqual(environmentWarnings(both), [
      'RACK_ENV is set, and has no effect: NODE_ENV says something else',
      'PUMA_WORKERS is set, and has no effect: WEB_CONCURRENCY says something else',
    ]);
    assert.deepEqual(environmentWarnings(old), []);
  });

  test('RACK_ENV=production is production', () => {
    const production = { RACK_ENV: 'production', ROUTEMASTER_ROOT_KEY: '0f'.repeat(24) };
    assert.equal(read(production).forceSsl, true);
    assert.throws(() => read({ ...production, ROUTEMASTER_ROOT_KEY: 'CHANGE-ME' }), /placeholder/);
  });

  test('REDIS_ENV_KEY names the variable with the URL of Redis, and counts more than ROUTEMASTER_REDIS_URL', () => {
    const env = { REDIS_ENV_KEY: 'REDISCLOUD_URL', ROUTEMASTER_REDIS_URL: 'redis://here:1' };
    assert.equal(read({ ...env, REDISCLOUD_URL: 'redis://cloud:1' }).redisUrl, 'redis://cloud:1');
    assert.equal(read(env).redisUrl, 'redis://here:1');
    assert.deepEqual(environmentWarnings(env), [
      'REDIS_ENV_KEY names a variable that is not set: ROUTEMASTER_REDIS_URL counts',
    ]);
    const itself = {
      REDIS_ENV_KEY: 'ROUTEMASTER_REDIS_URL',
      ROUTEMASTER_REDIS_URL: 'OTHER',
      OTHER: 'redis://o:1',
    };
    assert.equal(read(itself).redisUrl, 'redis://o:1');
  });

  test('without a meaning here is reported, with what to do instead', () => {
    const names = ['DATADOG_API_KEY', 'EXCEPTION_SERVICE', 'NEW_RELIC_LICENSE_KEY', 'ROUTEMASTER_LOG_FILE'];
    const warnings = environmentWarnings(Object.fromEntries(names.map((name) => [name, 'hunter2'])));
    assert.equal(warnings.length, names.length);
    for (const [index, name] of names.entries())
      assert.match(
        warnings[index] ?? '',
        new RegExp(`^${name} of the Ruby Routemaster is set, and has no effect: .{20}`),
      );
    assert.ok(!/hunter2/.test(warnings.join()));
    assert.deepEqual(environmentWarnings(Object.fromEntries(names.map((name) => [name, '']))), []);
  });

  test('ROUTEMASTER_ROOT_KEY=CHANGE-ME, as its .env has it, is taken outside production, with a warning', () => {
    const env = { ROUTEMASTER_ROOT_KEY: 'CHANGE-ME' };
    assert.deepEqual(readConfig(env).rootKeys, ['CHANGE-ME']);
    assert.match(environmentWarnings(env).join(), /^ROUTEMASTER_ROOT_KEY is the published placeholder/);
  });
});

test('a configuration cannot be changed, and can be handed to a thread', () => {
  const config = read();
  assert.ok(Object.isFrozen(config));
  assert.deepEqual(structuredClone(config), config);
});
