import { type ChildProcess, spawn } from 'node:child_process';

// `read` ends well when we write a line (the process was stopped properly) and fails at end of file, which is what a
// pipe gives when the process at its other end has gone, however it went. Works on Linux and macOS alike.
const script = 'read -r done && exit 0; kill -s "$1" "$2" 2>/dev/null; [ -z "$3" ] || rm -rf -- "$3"';

/**
 * Stops process `pid` with `signal` if we die without having done so ourselves (SIGKILL, a crash), and then removes
 * `temporaryDir` if one is given. Call the function that it returns when the process has ended.
 */
export function keep(pid: number, signal: 'TERM' | 'KILL', temporaryDir = ''): () => void {
  const keeper: ChildProcess = spawn('sh', ['-c', script, 'keeper', signal, String(pid), temporaryDir], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  keeper.on('error', () => {}); // without `sh` there is no keeper, and all else works
  keeper.stdin?.on('error', () => {});
  keeper.unref();
  (keeper.stdin as unknown as { unref?: () => void } | null)?.unref?.();
  return () => keeper.stdin?.end('done\n');
}
