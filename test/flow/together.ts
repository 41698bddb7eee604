import { together } from '../../harness/together.ts';

together(import.meta.dirname);
