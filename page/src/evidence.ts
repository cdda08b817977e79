/** How a number is known, from best to worst, then what was only said; each with a sign that needs no colour. */
export const EVIDENCE: Record<string, { sign: string; what: string }> = {
  measured: { sign: "●", what: "a load test or production observation of this configuration" },
  calibrated: { sign: "◕", what: "a step model fitted to your own measurements" },
  profiled: { sign: "◑", what: "a measured kernel or step profile" },
  estimated: { sign: "◔", what: "a roofline from data sheets" },
  stated: { sign: "◇", what: "the plan file says so" },
  assumed: { sign: "○", what: "a sourced default" },
};

export const sign = (evidence: string) => EVIDENCE[evidence]?.sign ?? "?";
