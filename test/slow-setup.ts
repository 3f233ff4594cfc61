import { browserPrograms } from './fixtures/browser.ts';
import { installDebianPackages } from './fixtures/debian-packages.ts';
import { imagePrograms, systemdPrograms } from './fixtures/deploy-programs.ts';
import { promtoolPrograms } from './fixtures/promtool.ts';
import { pythonPrograms } from './fixtures/python-capability.ts';

/** Runs once before the slow tests: the one place where Debian packages are installed. */
export default () =>
  installDebianPackages([browserPrograms, imagePrograms, promtoolPrograms, pythonPrograms, systemdPrograms]);
