import manifest from '../package.json' with { type: 'json' };

/** The release that this process runs, such as `2.0.0`. */
export const RELEASE: string = manifest.version;
