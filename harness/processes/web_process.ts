import { ROOT_KEY } from './bus_environment.ts';
import { compileCache, PrintingProcess, root } from './command.ts';

/** The web entry as the Procfile starts it, with only the environment that a test gives. */
export class WebProcess extends PrintingProcess {
  /** Starts a process that ends with the test. */
  static during(
    t: { after(end: () => unknown): void },
    env: Record<string, string>,
    tree?: string,
  ): WebProcess {
    const web = new WebProcess(env, tree);
    t.after(() => web.kill());
    return web;
  }

  /** By default, PORT is any free port, counters are not flushed periodically, and the tree is this one. */
  constructor(env: Record<string, string>, tree = root) {
    super(process.execPath, ['src/web.ts'], {
      cwd: tree,
      env: {
        PATH: process.env.PATH,
        ...compileCache,
        PORT: '0',
        ROUTEMASTER_ROOT_KEY: ROOT_KEY,
        ROUTEMASTER_COUNTER_FLUSH_INTERVAL: '3600',
        ...env,
      },
    });
  }

  /** Resolves with the port once the process listens. Throws with the output if the process ends before. */
  async port(): Promise<number> {
    const [, port] = await this.prints(/"port":(\d+),"msg":"listening"/);
    return Number(port);
  }
}
