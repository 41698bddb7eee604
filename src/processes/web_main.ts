import cluster from 'node:cluster';
import { environmentWarnings, readConfig } from '../config.ts';
import { createLog } from '../log.ts';
import { onStop, start } from './lifecycle.ts';
import { WebProcesses } from './web_processes.ts';

await start(async () => {
  const config = readConfig();
  const log = createLog(config.logLevel, { process: 'web', pid: process.pid });
  if (cluster.isPrimary) for (const warning of environmentWarnings()) log.warn(warning);
  if (!cluster.isPrimary || config.webProcesses === 1) {
    // Only a process that serves requests loads `web_process.ts`. If there are several web processes, their parent (the
    // primary) serves none.
    const { serve } = await import('./web_process.ts');
    return serve(config, log);
  }

  const processes = new WebProcesses(config.webProcesses, log);
  processes.start();
  onStop(log, () => processes.stop());
});
