// Rows without a bound about one promotion and one demotion on the stand-in cluster: our own time, and the time spent
// waiting for the cluster, so that a needless wait shows. Nothing is measured before a run does such steps.

/** The rows of moving one server. */
export async function clusterRows() {
  const note = 'not measured yet';
  return [
    { work: 'promotion on the stand-in cluster: our own time', unit: 'ms', note },
    { work: 'promotion on the stand-in cluster: waiting for it', unit: 'ms', note },
    { work: 'demotion on the stand-in cluster: our own time', unit: 'ms', note },
    { work: 'demotion on the stand-in cluster: waiting for it', unit: 'ms', note },
  ];
}
